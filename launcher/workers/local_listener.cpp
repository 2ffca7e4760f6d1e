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
constexpr Millis kAcceptPause{50};  // after accept has run out of descriptors

LocalListener::LocalListener(boost::asio::io_context& io, os::LocalSocket socket, OnInput on_input)
    : io_(io),
      name_(std::move(socket.name)),
      on_input_(std::move(on_input)),
      listener_(io, socket.fd.release()),
      pause_(io) {}

std::shared_ptr<LocalListener> LocalListener::start(boost::asio::io_context& io, std::string const& directory,
                                                    OnInput on_input) {
  auto socket = os::listen_local(directory);
  if (!socket) {
    log(Level::debug, socket.error().message());
    return nullptr;
  }
  std::shared_ptr<LocalListener> listener(new LocalListener(io, *std::move(socket), std::move(on_input)));
  listener->arm();
  return listener;
}

void LocalListener::close() {
  on_input_ = {};
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
    auto connection = os::accept_same_user(listener_.native_handle());
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
    await_input(guests_.back());
  }
  arm();
}

void LocalListener::await_input(Connection const& connection) {
  connection->async_wait(stream_descriptor::wait_read,
                         [self = shared_from_this(), connection](error_code const& error) {
                           auto const on_input = self->on_input_;              // a copy: it may close() this listener
                           if (!error && connection->is_open() && on_input) {  // else it has been dropped
                             on_input(connection);
                           }
                         });
}

void LocalListener::keep(Connection const& connection) {
  guests_.remove(Connection(connection));  // a copy: `connection` may be the element that is removed
}

void LocalListener::drop(Connection const& guest) {
  Connection const kept(guest);  // NOLINT(performance-unnecessary-copy-initialization): `guest` may be in the list
  error_code ignored;
  kept->close(ignored);
  guests_.remove(kept);
}

}  // namespace cxxrun::launcher
