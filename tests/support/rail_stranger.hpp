// Who is no rank and speaks to ranks all the same: strangers at the door, and relays between two of them.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

#include "cxxrun/failure.hpp"
#include "src/base/os/local_address.hpp"
#include "src/runtime/cpu/rails/rail_link.hpp"

namespace cxxrun::test {

inline void wait_for(int fd, short events) {
  pollfd entry{fd, events, 0};
  if (::poll(&entry, 1, 20'000) != 1) {
    throw std::runtime_error("nothing comes");
  }
}

inline os::UniqueFd connect_to(StoreAddress const& address) {
  auto fd = or_throw(host::begin_connect(address));
  wait_for(fd.get(), POLLOUT);
  return fd;
}

inline void send_all(int fd, std::string_view bytes) {
  if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("cannot send");
  }
}

/// So many bytes, or those that come before the end.
inline std::string read_up_to(int fd, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t got = 0;
  while (got < size) {
    wait_for(fd, POLLIN);
    ssize_t const n = ::recv(fd, bytes.data() + got, size - got, 0);
    if (n <= 0) {
      break;
    }
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

template <class T>
std::string bytes_of_value(T const& value) {
  return {reinterpret_cast<char const*>(&value), sizeof value};
}

inline wire::RailGreeting read_greeting(int fd) {
  wire::RailGreeting greeting;
  auto const bytes = read_up_to(fd, sizeof greeting);
  if (bytes.size() < sizeof greeting) {
    throw std::runtime_error("it hangs up instead of greeting");
  }
  std::memcpy(&greeting, bytes.data(), sizeof greeting);
  return greeting;
}

/// Both ends of a connection that this process has made, as an honest caller sees them.
inline void see_ends(int fd, wire::RailGreeting& greeting) {
  greeting.caller = os::own_end(fd);
  greeting.called = os::other_end(fd);
}

/// Answers, one after another, those who call at a door, until all processes that are forked before serve() have ended.
class Impostor {
 public:
  explicit Impostor(host::RailListener door = host::listen_for_rails("127.0.0.1")) : door_(std::move(door)) {
    if (::pipe(ended_) != 0) {
      throw std::runtime_error("no pipe");
    }
  }
  [[nodiscard]] StoreAddress const& address() const { return door_.address; }
  void serve(std::function<void(int connection)> const& answer) {
    ::close(ended_[1]);  // the others have it
    for (;;) {
      std::array<pollfd, 2> watched{{{door_.fd.get(), POLLIN, 0}, {ended_[0], POLLIN, 0}}};
      ::poll(watched.data(), watched.size(), 20'000);
      if (watched[0].revents == 0) {
        return;
      }
      os::UniqueFd const caller(::accept(door_.fd.get(), nullptr, nullptr));
      try {
        answer(caller.get());
      } catch (std::exception const&) {  // they have ended meanwhile
      }
    }
  }

 private:
  host::RailListener door_;
  int ended_[2]{};
};

/// Passes on what `caller` says to whoever listens at `to`, and the other way round. `lies`: each end reads in the
/// other's greeting what it sees itself. Returns what who was called has said behind its greeting.
inline std::string relay(int caller, StoreAddress const& to, bool lies) {
  os::UniqueFd const called = connect_to(to);
  auto call = read_greeting(caller);
  if (lies) {
    see_ends(called.get(), call);
  }
  send_all(called.get(), bytes_of_value(call));
  auto answer = read_greeting(called.get());
  if (lies) {
    see_ends(caller, answer);
    std::swap(answer.caller, answer.called);
  }
  send_all(caller, bytes_of_value(answer));
  std::string said;
  for (;;) {
    std::array<pollfd, 2> watched{{{caller, POLLIN, 0}, {called.get(), POLLIN, 0}}};
    ::poll(watched.data(), watched.size(), 20'000);
    bool const from_caller = watched[0].revents != 0;
    std::array<char, 256> bytes{};
    ssize_t const n = ::recv(from_caller ? caller : called.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n <= 0) {
      return said;
    }
    std::string_view const words(bytes.data(), static_cast<std::size_t>(n));
    said += from_caller ? "" : words;
    send_all(from_caller ? called.get() : caller, words);
  }
}

}  // namespace cxxrun::test
