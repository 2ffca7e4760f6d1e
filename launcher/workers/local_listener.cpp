#include "launcher/workers/local_listener.hpp"

#include <cerrno>
#include <unistd.h>
#include <utility>

#include "src/base/os/log.hpp"

namespace cxxrun::launcher {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr std::size_t kMostGuests = 256;
constexpr int kAcceptsPerTurn = 64;
constexpr Millis kAcceptPause{50};  // after accept ran out of descriptors

LocalListener::LocalListener(boost::asio::io_context& io, host::SegmentSocket socket, Heard heard)
    : io_(io),
      name_(std::move(socket.name)),
      heard_(std::move(heard)),
      listener_(io, socket.fd.release()),
      pause_(io) {}

std::shared_ptr<LocalListener> LocalListener::start(boost::asio::io_context& io, std::string const& directory,
                                                    Heard heard) {
  auto socket = host::listen_for_segments(directory);
  if (!socket) {
    log(Level::debug, socket.error().message());
    return nullptr;
  }
  std::shared_ptr<LocalListener> listener(new LocalListener(io, *std::move(socket), std::move(heard)));
  listener->arm();
  return listener;
}

void LocalListener::close() {
  heard_ = {};
  error_code ignored;
  listener_.close(ignored);
  if (name_.starts_with('/')) {
    unlink(name_.c_str());
  }
  pause_.cancel();
  while (!guests_.empty()) {
    drop(guests_.front());
  }
}

void LocalListener::arm() {
  listener_.async_wait(stream_descriptor::wait_read, [self = shared_from_this()](error_code const& error) {
    if (!error && self->listener_.is_open()) {
      self->accept_some();
    }
  });
}

void LocalListener::accept_some() {
  for (int n = 0; n < kAcceptsPerTurn; ++n) {
    auto connection = host::accept_same_user(listener_.native_handle());
    if (!connection) {
      if (errno != EAGAIN) {
        pause_.after(kAcceptPause, [this] { accept_some(); });
        return;
      }
      break;
    }
    if (guests_.size() == kMostGuests) {
      drop(guests_.front());
    }
    guests_.push_back(std::make_shared<stream_descriptor>(io_, connection.release()));
    hear(guests_.back());
  }
  arm();
}

void LocalListener::hear(Connection const& connection) {
  connection->async_wait(stream_descriptor::wait_read,
                         [self = shared_from_this(), connection](error_code const& error) {
                           auto const heard = self->heard_;                 // which may close() this
                           if (!error && connection->is_open() && heard) {  // else it was dropped meanwhile
                             heard(connection);
                           }
                         });
}

void LocalListener::keep(Connection const& connection) {
  guests_.remove(Connection(connection));  // by value: the list's own must not go while it is used
}

void LocalListener::drop(Connection const& guest) {
  Connection const kept(guest);  // NOLINT(performance-unnecessary-copy-initialization): the list's own goes
  error_code ignored;
  kept->close(ignored);
  guests_.remove(kept);
}

}  // namespace cxxrun::launcher
