// A store on a loopback port and raw sockets to it, for the process tests.
#pragma once

#include <arpa/inet.h>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

#include "cxxrun/store.hpp"
#include "src/base/store/store_server.hpp"

namespace cxxrun::test {

/// A guard against hanging, never a measure of speed.
inline constexpr int kGuardMs = 30000;

/// A server with one store, generation 1.
struct StoreFixture {
  store::StoreServer server;
  std::uint16_t port = server.open(1, {0, true}).value();

  [[nodiscard]] Store client(Store::Millis timeout = Store::Millis(kGuardMs)) const {
    return Store::connect({"127.0.0.1", port}, timeout).value();
  }
};

/// A blocking socket that sends any bytes and reads with a guard.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0;
  }
  ~RawClient() { ::close(fd_); }
  RawClient(RawClient const&) = delete;
  RawClient& operator=(RawClient const&) = delete;
  RawClient(RawClient&&) = delete;
  RawClient& operator=(RawClient&&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      ssize_t const n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) {
        return;
      }
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  /// Sends what the kernel takes now; returns how much that was.
  [[nodiscard]] std::size_t send_some(std::string_view bytes) const {
    ssize_t const n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  /// Exactly `size` bytes, or fewer when the server closed or the guard ran out.
  [[nodiscard]] std::string receive(std::size_t size) const {
    std::string bytes;
    while (bytes.size() < size && readable(kGuardMs)) {
      char part[4096];
      ssize_t const n = ::recv(fd_, part, std::min(sizeof part, size - bytes.size()), 0);
      if (n <= 0) {
        break;
      }
      bytes.append(part, static_cast<std::size_t>(n));
    }
    return bytes;
  }
  [[nodiscard]] bool readable(int milliseconds) const {
    pollfd entry{fd_, POLLIN, 0};
    return ::poll(&entry, 1, milliseconds) > 0;
  }
  /// Whether the server has closed this connection (waits for it).
  [[nodiscard]] bool closed_by_server() const {
    char byte = 0;
    return readable(kGuardMs) && ::recv(fd_, &byte, 1, 0) <= 0;
  }

 private:
  int fd_;
  bool connected_ = false;
};

}  // namespace cxxrun::test
