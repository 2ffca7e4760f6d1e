#include "launcher/worker_links.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <sys/socket.h>
#include <utility>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "launcher/worker_page.hpp"
#include "src/core/time.hpp"
#include "src/host/segment_socket.hpp"
#include "src/os/log.hpp"

namespace cxxrun::launcher {
namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;
using Connection = std::shared_ptr<stream_descriptor>;

constexpr std::size_t kMostConnections = 256;  // that have not registered; the oldest goes when there are more
constexpr std::size_t kLongest = 1024;         // of what a worker has to say
constexpr int kAcceptsPerTurn = 64;
constexpr Millis kAcceptPause{50};  // after accept ran out of descriptors

// One packet with at most one descriptor.
struct Ancillary {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

/// `descriptor` -1: none. False: it is gone, or does not read what it was sent.
bool send_packet(int connection, worker::FromAgent const& packet, int descriptor = -1) {
  std::string bytes = worker::encode(packet);
  iovec text{bytes.data(), bytes.size()};
  Ancillary ancillary;
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = ancillary.bytes.data();
    message.msg_controllen = ancillary.bytes.size();
    cmsghdr* const control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
  }
  ssize_t sent = -1;
  while ((sent = sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent == static_cast<ssize_t>(bytes.size());
}

enum class Input : std::uint8_t { nothing_yet, packet, gone };

/// recv, not recvmsg: descriptors that come along are not taken.
Input receive_packet(int connection, worker::FromWorker& packet) {
  std::array<char, kLongest> bytes{};
  ssize_t const n = recv(connection, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return Input::nothing_yet;
  }
  if (n <= 0 || static_cast<std::size_t>(n) > bytes.size()) {
    return Input::gone;
  }
  auto decoded = worker::decode_from_worker({bytes.data(), static_cast<std::size_t>(n)});
  if (!decoded) {
    return Input::gone;
  }
  packet = *std::move(decoded);
  return Input::packet;
}

pid_t pid_of(int connection) {
  ucred who{};
  socklen_t length = sizeof who;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 ? who.pid : 0;
}

}  // namespace

struct WorkerLinks::Impl : std::enable_shared_from_this<WorkerLinks::Impl> {
  /// A worker that has registered. Without a connection: it has ended, or has closed it.
  struct Link {
    WorkerPage page;
    bool survives = false;
    Connection connection;
  };

  Impl(boost::asio::io_context& context, Handlers callbacks, host::SegmentSocket socket)
      : io(context),
        handlers(std::move(callbacks)),
        name(std::move(socket.name)),
        listener(context, socket.fd.release()),
        pause(context) {}

  Impl(boost::asio::io_context& context, Handlers callbacks)
      : io(context), handlers(std::move(callbacks)), listener(context), pause(context) {}

  void close() {
    handlers = {};
    error_code ignored;
    listener.close(ignored);
    pause.cancel();
    while (!strangers.empty()) {
      drop(strangers.front());
    }
    while (!links.empty()) {
      forget(links.begin()->first);
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
      if (strangers.size() == kMostConnections) {
        drop(strangers.front());
      }
      strangers.push_back(std::make_shared<stream_descriptor>(io, connection.release()));
      hear(strangers.back(), std::nullopt);
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

  /// `from`: whose it is; nothing: it has not registered.
  void hear(Connection const& connection, std::optional<std::uint32_t> from) {
    connection->async_wait(stream_descriptor::wait_read,
                           [self = shared_from_this(), connection, from](error_code const& error) {
                             if (!error && connection->is_open()) {  // else it was dropped meanwhile
                               self->heard(connection, from);
                             }
                           });
  }

  void heard(Connection const& connection, std::optional<std::uint32_t> from) {
    worker::FromWorker packet;
    auto const input = receive_packet(connection->native_handle(), packet);
    auto const* const here = std::get_if<worker::Register>(&packet);
    if (input == Input::nothing_yet) {
      hear(connection, from);
    } else if (input == Input::gone || (here != nullptr) == from.has_value()) {
      from ? disconnect(*from) : drop(connection);
    } else if (here != nullptr) {
      admit(connection, *here);
    } else {
      hear(connection, from);
      auto const& parked = std::get<worker::Parked>(packet);
      if (parked.generation == generation) {  // else it is late: said before it was resumed
        handlers.parked(*from, parked.why);
      }
    }
  }

  void admit(Connection const& connection, worker::Register const& packet) {
    int const fd = connection->native_handle();
    auto const local_rank = handlers.who(pid_of(fd));
    auto const known = local_rank ? links.find(*local_rank) : links.end();
    std::string no = !local_rank                       ? "this process is no worker of this agent"
                     : packet.generation != generation ? "the generation is " + std::to_string(generation)
                     : known != links.end() && known->second.connection ? "this worker has registered already"
                                                                        : "";
    if (no.empty()) {
      no = welcome(connection, *local_rank, packet.survives);
    }
    if (!no.empty()) {
      send_packet(fd, worker::No{no});
      drop(connection);
    } else if (packet.survives) {
      handlers.survives(*local_rank);
    }
  }

  /// Why not, or "".
  std::string welcome(Connection const& connection, std::uint32_t local_rank, bool survives) {
    auto made = WorkerPage::make();
    if (!made) {
      log(Level::warn, made.error().message());
      return made.error().message();
    }
    made->get()->over.store(is_over && survives ? generation : 0);
    made->get()->ends.store(is_ending ? 1 : 0);
    if (!send_packet(connection->native_handle(), worker::Welcome{}, made->fd.get())) {
      return "it does not read its answer";
    }
    made->fd.reset();
    strangers.remove(Connection(connection));
    links.erase(local_rank);
    links.emplace(local_rank, Link{*std::move(made), survives, connection});
    hear(connection, local_rank);
    return "";
  }

  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  void drop(Connection connection) {  // by value: the list's own must not go while it is used
    error_code ignored;
    connection->close(ignored);
    strangers.remove(connection);
  }

  void disconnect(std::uint32_t local_rank) {
    if (auto const it = links.find(local_rank); it != links.end() && it->second.connection) {
      error_code ignored;
      std::exchange(it->second.connection, nullptr)->close(ignored);
    }
  }

  void forget(std::uint32_t local_rank) {
    disconnect(local_rank);
    links.erase(local_rank);
  }

  boost::asio::io_context& io;
  Handlers handlers;
  std::string name;
  stream_descriptor listener;
  boost::asio::basic_waitable_timer<Clock> pause;
  std::list<Connection> strangers;  // that have not registered, oldest first
  std::map<std::uint32_t, Link> links;
  std::uint64_t generation = 0;
  bool is_over = false;    // said of the generation
  bool is_ending = false;  // the same
};

WorkerLinks::WorkerLinks(boost::asio::io_context& io, Handlers handlers) {
  auto socket = host::listen_for_segments();
  if (!socket) {
    log(Level::debug, socket.error().message());
    impl_ = std::make_shared<Impl>(io, std::move(handlers));
    return;
  }
  impl_ = std::make_shared<Impl>(io, std::move(handlers), *std::move(socket));
  impl_->arm();
}

WorkerLinks::~WorkerLinks() {
  impl_->close();
}

std::string const& WorkerLinks::name() const {
  return impl_->name;
}

void WorkerLinks::begin(std::uint64_t generation) {
  impl_->generation = generation;
  impl_->is_over = false;
  impl_->is_ending = false;
}

void WorkerLinks::forget(std::uint32_t local_rank) {
  impl_->forget(local_rank);
}

void WorkerLinks::over() {
  impl_->is_over = true;
  for (auto const& [local_rank, link] : impl_->links) {
    if (link.survives) {
      link.page.get()->over.store(impl_->generation);
      link.page.ring();
    }
  }
}

void WorkerLinks::ends() {
  impl_->is_ending = true;
  for (auto const& [local_rank, link] : impl_->links) {
    link.page.get()->ends.store(1);
    link.page.ring();
  }
}

bool WorkerLinks::checkpoint(std::uint32_t local_rank) {
  auto const it = impl_->links.find(local_rank);
  if (it == impl_->links.end()) {
    return false;
  }
  it->second.page.get()->checkpoints.fetch_add(1);
  it->second.page.ring();
  return true;
}

bool WorkerLinks::resume(std::uint32_t local_rank, worker::Resume const& packet) {
  auto const it = impl_->links.find(local_rank);
  return it != impl_->links.end() && it->second.connection &&
         send_packet(it->second.connection->native_handle(), packet);
}

worker::ControlPage const* WorkerLinks::page(std::uint32_t local_rank) const {
  auto const it = impl_->links.find(local_rank);
  return it == impl_->links.end() ? nullptr : it->second.page.get();
}

}  // namespace cxxrun::launcher
