// How a worker reaches its store: blocking TCP connections with deadlines, on plain sockets.
#pragma once

#include <unistd.h>
#include <utility>

#include "cxxrun/error.hpp"
#include "cxxrun/store.hpp"
#include "src/core/time.hpp"

namespace cxxrun {

/// A descriptor that closes itself.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  OwnedFd(OwnedFd const&) = delete;
  OwnedFd& operator=(OwnedFd const&) = delete;
  ~OwnedFd() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_ = -1;
};

/// Waits until poll(2) reports one of `events` (or an error, which the next call on the socket will tell);
/// false when the deadline came first.
bool socket_ready(int fd, short events, TimePoint deadline);

/// One attempt at every address of the host, in the resolver's order. The socket is non-blocking, close-on-exec,
/// without Nagle's delay. Errors: not_found (the name), closed (the last address' reason), timeout, io.
Result<OwnedFd> dial(StoreAddress const& address, TimePoint deadline);

}  // namespace cxxrun
