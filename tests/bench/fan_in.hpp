// What the model of worker fan-in (docs/design/fan_in.md) says on a connection: bytes of several workers in one sealed
// frame. For fan_in_model.cpp and fan_in_crowd.cpp.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <variant>

#include "rendezvous/trust/guard.hpp"
#include "src/os/fd.hpp"
#include "src/os/random.hpp"
#include "src/wire/frame.hpp"

namespace fan_in {

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

[[noreturn]] inline void give_up(std::string const& why) {
  std::fprintf(stderr, "fan_in: %s: %s\n", why.c_str(), std::strerror(errno));
  std::exit(1);
}

inline void raise_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

inline void watch(int epoll, int fd, std::uint64_t name, std::uint32_t events = EPOLLIN) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    give_up("epoll_ctl");
  }
}

/// On 127.0.0.1; prints the port as one line.
inline os::UniqueFd listen_and_tell() {
  os::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in a{};
  socklen_t size = sizeof a;
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int const on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&a), size) != 0 || ::listen(fd.get(), 4096) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&a), &size) != 0) {
    give_up("cannot listen");
  }
  std::printf("%u\n", ntohs(a.sin_port));
  std::fflush(stdout);
  return fd;
}

/// To 127.0.0.1, from one loopback address for each agent; it may be under way still.
inline os::UniqueFd call(std::uint16_t port, std::uint32_t agent) {
  os::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int const on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 0x10000U + agent);
  if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) != 0) {
    give_up("cannot bind");
  }
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(port);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) != 0 && errno != EINPROGRESS) {
    give_up("cannot connect");
  }
  return fd;
}

/// Waits for whoever does not read: a model needs no more.
inline void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t const n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else {
      return;  // gone: its end will be read
    }
  }
}

/// Bytes of one worker among those of others: its number, how many (0: the worker is gone), the bytes.
inline void put_item(std::string& payload, std::uint32_t worker, std::string_view bytes) {
  std::array<std::uint32_t, 2> const head{worker, static_cast<std::uint32_t>(bytes.size())};
  payload.append(reinterpret_cast<char const*>(head.data()), sizeof head).append(bytes);
}

template <class Take>
void each_item(std::string_view payload, Take take) {
  while (!payload.empty()) {
    std::array<std::uint32_t, 2> head{};
    std::memcpy(head.data(), payload.data(), sizeof head);
    take(head[0], payload.substr(sizeof head, head[1]));
    payload.remove_prefix(sizeof head + head[1]);
  }
}

/// A connection that proves itself and is sealed, as those of agents are. The key is the bench's own.
class SealedLink {
 public:
  SealedLink(os::UniqueFd fd, bool caller) : fd_(std::move(fd)), guard_(make_guard(caller)) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool sealed() const { return guard_.sealed(); }
  void begin() { send_all(fd(), wire::frame(guard_.call())); }
  void say(std::string_view payload) {
    constexpr std::size_t kPart = wire::kMaxFrame - rendezvous::kSealBytes;
    if (payload.size() > kPart) {
      give_up("a value this long is not in the model");
    }
    std::string const bytes = wire::frame(guard_.say(payload));
    said_ += bytes.size();
    send_all(fd(), bytes);
  }

  /// What has come; false: the other end is gone.
  template <class Take>
  bool receive(Take take) {
    thread_local std::array<char, 65536> chunk;
    ssize_t const n = ::recv(fd(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
      return false;
    }
    reader_.feed({chunk.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))});
    for (auto next = reader_.next(); next && next->has_value(); next = reader_.next()) {
      auto const heard = guard_.hear(**next);
      if (auto const* const unsealed = std::get_if<rendezvous::Unsealed>(&heard)) {
        said_ += (*next)->size() + 4;
        take(std::string_view(unsealed->payload));
      } else if (auto const* const back = std::get_if<rendezvous::SendBack>(&heard)) {
        send_all(fd(), wire::frame(back->frame));
      } else if (std::holds_alternative<rendezvous::WantsKey>(heard)) {
        guard_.give(key());
        take(std::string_view());
      } else {
        return false;
      }
    }
    return true;
  }
  /// Bytes of frames, both ways, without those of the handshake.
  [[nodiscard]] std::uint64_t said() const { return said_; }

 private:
  static rendezvous::Key key() { return rendezvous::derive({}, "fan_in_bench"); }
  static rendezvous::Guard make_guard(bool caller) {
    rendezvous::Fresh const fresh = random_bytes<rendezvous::Fresh{}.size()>();
    return caller ? rendezvous::Guard::of_caller(fresh, rendezvous::id_of(key()))
                  : rendezvous::Guard::of_called(key(), fresh);
  }

  os::UniqueFd fd_;
  rendezvous::Guard guard_;
  wire::FrameReader reader_;
  std::uint64_t said_ = 0;
};

}  // namespace fan_in
