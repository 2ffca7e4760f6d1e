#include "launcher/worker_memory.hpp"

#include <cerrno>
#include <list>
#include <map>
#include <utility>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "launcher/memory_keys.hpp"
#include "src/core/time.hpp"
#include "src/host/segment.hpp"
#include "src/os/log.hpp"

namespace cxxrun::launcher {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;
using Connection = std::shared_ptr<stream_descriptor>;

constexpr std::size_t kMostConnections = 256;  // that have not asked yet; the oldest goes when there are more
constexpr int kAcceptsPerTurn = 64;
constexpr Millis kAcceptPause{50};  // after accept ran out of descriptors

}  // namespace

struct WorkerMemory::Generation : std::enable_shared_from_this<WorkerMemory::Generation> {
  Generation(boost::asio::io_context& context, host::SegmentSocket socket)
      : io(context), name(std::move(socket.name)), listener(context, socket.fd.release()), pause(context) {}

  void close() {
    error_code ignored;
    listener.close(ignored);
    pause.cancel();
    while (!connections.empty()) {
      drop(connections.front());
    }
  }

  void arm() {
    listener.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](error_code const& error) {
      if (!error && self->listener.is_open()) {
        self->accept_some();
      }
    });
  }

  void accept_some() {
    for (int n = 0; n < kAcceptsPerTurn; ++n) {
      auto connection = host::accept_same_user(listener.native_handle());
      if (!connection) {
        if (errno != EAGAIN) {
          wait_and_retry();
          return;
        }
        break;
      }
      if (connections.size() == kMostConnections) {
        drop(connections.front());
      }
      connections.push_back(std::make_shared<stream_descriptor>(io, connection.release()));
      hear(connections.back());
    }
    arm();
  }

  void wait_and_retry() {
    pause.expires_after(kAcceptPause);
    pause.async_wait([self = shared_from_this()](error_code const& error) {
      if (!error && self->listener.is_open()) {
        self->accept_some();
      }
    });
  }

  void hear(Connection const& connection) {
    connection->async_wait(stream_descriptor::wait_read,
                           [self = shared_from_this(), connection](error_code const& error) {
                             if (!error && connection->is_open()) {  // else it was dropped meanwhile
                               self->heard(connection);
                             }
                           });
  }

  void heard(Connection const& connection) {
    host::SegmentRequest request;
    auto const input = host::read_request(connection->native_handle(), request);
    if (input == host::SegmentInput::nothing_yet) {
      hear(connection);
      return;
    }
    if (input == host::SegmentInput::request) {
      answer(connection->native_handle(), request.key);
    }
    drop(connection);
  }

  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  void drop(Connection connection) {  // by value: the list's own must not go while it is used
    error_code ignored;
    connection->close(ignored);
    connections.remove(connection);
  }

  void answer(int connection, std::uint64_t key) {
    auto const said = keys.ask(key);
    if (said.what == MemoryKeys::Answer::What::refuse) {
      host::answer_no(connection, said.why);
      return;
    }
    if (said.drop) {
      memory.erase(*said.drop);
    }
    auto& segment = memory[key];
    if (!segment) {  // new, or it could not be made the last time
      auto made = host::make_segment();
      if (!made) {
        log(Level::warn, made.error().message());
        host::answer_no(connection, made.error().message());
        return;
      }
      segment = *std::move(made);
    }
    host::answer_with(connection, segment.get());
  }

  boost::asio::io_context& io;
  std::string name;
  stream_descriptor listener;
  boost::asio::basic_waitable_timer<Clock> pause;
  std::list<Connection> connections;  // oldest first
  MemoryKeys keys;
  std::map<std::uint64_t, os::UniqueFd> memory;
};

WorkerMemory::WorkerMemory(boost::asio::io_context& io) : io_(io) {}

WorkerMemory::~WorkerMemory() {
  end();
}

std::string WorkerMemory::begin() {
  end();
  auto socket = host::listen_for_segments();
  if (!socket) {
    log(Level::debug, socket.error().message());
    return "";
  }
  generation_ = std::make_shared<Generation>(io_, *std::move(socket));
  generation_->arm();
  return generation_->name;
}

void WorkerMemory::end() {
  if (generation_) {
    std::exchange(generation_, nullptr)->close();
  }
}

}  // namespace cxxrun::launcher
