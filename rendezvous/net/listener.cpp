#include "rendezvous/net/listener.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "src/base/os/limits.hpp"
#include "src/base/os/log.hpp"

namespace cxxrun::rendezvous {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

namespace {

constexpr int kBacklog = 4096;
constexpr Millis kNoDescriptor{100};  ///< out of descriptors, most likely: until one is free
constexpr Millis kTellAgain{60'000};

}  // namespace

Listener::Listener(boost::asio::io_context& io) : acceptor_(io), pause_(io) {}

ErrorCode Listener::adopt(os::UniqueFd socket) {
  int family = 0;
  socklen_t size = sizeof(family);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) {
    return {errno, boost::system::system_category()};
  }
  fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  ErrorCode error;
  acceptor_.assign(family == AF_INET6 ? tcp::v6() : tcp::v4(), socket.get(), error);
  if (!error) {
    (void)socket.release();
    acceptor_.listen(kBacklog, error);
  }
  return error;
}

void Listener::accept(Accepted accepted, std::function<Millis()> hold) {
  accepted_ = std::move(accepted);
  hold_ = std::move(hold);
  next();
}

void Listener::next() {
  if (auto const wait = hold_(); wait > Millis{0}) {
    pause_.after(wait, [this] { next(); });
    return;
  }
  acceptor_.async_accept([this, self = shared_from_this()](ErrorCode const& error, tcp::socket socket) {
    if (!acceptor_.is_open()) {
      return;
    }
    if (error) {
      if (auto const now = Clock::now(); !told_ || now - *told_ > kTellAgain) {
        told_ = now;
        log(Level::warn, os::explain_refusal("cannot accept a connection, and keeps trying", error.value()));
      }
      pause_.after(kNoDescriptor, [this] { next(); });
      return;
    }
    accepted_(std::move(socket));
    if (acceptor_.is_open()) {
      next();
    }
  });
}

void Listener::close() {
  ErrorCode ignored;
  pause_.cancel();
  acceptor_.close(ignored);
}

}  // namespace cxxrun::rendezvous
