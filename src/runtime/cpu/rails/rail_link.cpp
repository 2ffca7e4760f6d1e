#include "src/runtime/cpu/rails/rail_link.hpp"

#include <algorithm>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/tcp_sockets.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::host {
namespace {

constexpr Millis kFarewellTime{100};
constexpr Millis kRelayGrace{50};  // per node in between

/// Sends as much of `bytes` as possible and removes it from `bytes`. False: the socket accepts nothing at present.
bool send_rest(int fd, std::string_view& bytes) {
  while (!bytes.empty()) {
    ssize_t const n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      bytes = {};  // nobody is there to read it
    }
  }
  return true;
}

void tell_all(Links& links, std::string const& bytes) {
  TimePoint const until = Clock::now() + kFarewellTime;
  std::vector<std::string_view> left(links.size(), bytes);
  for (;;) {
    std::vector<pollfd> waiting;
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (links[i].control && !links[i].ended && !send_rest(links[i].control.get(), left[i])) {
        waiting.push_back({links[i].control.get(), POLLOUT, 0});
      }
    }
    int const time = os::poll_time(until);
    if (waiting.empty() || time == 0) {
      return;
    }
    ::poll(waiting.data(), waiting.size(), time);
  }
}

Result<os::Addresses> literal(StoreAddress const& address) {
  auto found = os::resolve(address.host, address.port, SOCK_STREAM, AI_NUMERICHOST);
  return found ? std::move(found) : fail(Errc::usage, "\"" + address.host + "\" is not an IPv4 or IPv6 address");
}

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

/// Disables Nagle's delay, and probes every `pause` seconds whether the other host is alive.
void send_at_once(int fd, int pause) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, pause);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, pause);
}

}  // namespace

Result<os::UniqueFd> begin_connect(StoreAddress const& address) {
  auto const found = literal(address);
  if (!found) {
    return found.error();
  }
  return os::begin_connect((*found)->ai_addr, (*found)->ai_addrlen);
}

// No limit on unacknowledged data: a peer that computes for a long time reads nothing and is still alive.
void prepare_data(int fd) {
  send_at_once(fd, 60);
}

// Keepalive probes are sent while the connection is idle; TCP_USER_TIMEOUT covers a farewell that is not acknowledged.
void prepare_control(int fd, Millis silence) {
  constexpr int kProbes = 3;
  auto const pause = std::chrono::duration_cast<std::chrono::seconds>(silence / (kProbes + 1)).count();
  send_at_once(fd, static_cast<int>(std::max<std::int64_t>(pause, 1)));
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence.count()));
}

RailListener listen_for_rails(std::string const& host) {
  auto const found = or_throw(literal({host, 0}));
  os::UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || os::bind_somewhere(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    throw Failure(fail(Errc::io, "cannot listen at " + host + " for the ranks of other nodes", errno));
  }
  std::uint16_t const port = os::port_of(fd.get());
  return {std::move(fd), {host, port}, {}};
}

/// A peer that has begun the exchange only waits for other nodes; one that has not may wait for a rank of its own node.
Millis grace_for(Link const& link, Patience const& patience, int distance) {
  bool const begun = link.header_got == sizeof link.header_in;
  return begun ? distance * kRelayGrace : link.alone ? Millis(0) : patience.grace;
}

PeerFailure failure_of(Link const& link, PeerFailure::Why why, std::uint64_t generation, Patience const& patience) {
  return {why, link.rank, link.host, generation,
          std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - patience.began)};
}

PeerFailure::Why why_of(int error, int rank) {
  switch (error) {
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ECONNREFUSED: return PeerFailure::Why::died;
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
    case ENOTCONN: return PeerFailure::Why::lost;
    default: throw Failure(fail(Errc::io, "cannot send to or receive from rank " + std::to_string(rank), error));
  }
}

void read_farewell(Link& link, std::uint64_t generation, Patience const& patience) {
  char buffer[wire::kMaxFarewell];
  while (!link.ended) {
    ssize_t const n = ::recv(link.control.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
      return;
    }
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      link.ended = n == 0 ? PeerFailure::Why::died : why_of(errno, link.rank);
      link.end_seen = Clock::now();
      return;
    }
    link.heard.append(buffer, static_cast<std::size_t>(n));
    auto const farewell = or_throw(wire::decode_farewell(link.heard));
    if (farewell && farewell->what == wire::Farewell::What::left) {
      link.ended = PeerFailure::Why::left;
      link.end_seen = Clock::now();
    } else if (farewell) {
      bool const peer = farewell->what == wire::Farewell::What::peer_failure;
      throw_failure({peer, farewell->why, farewell->rank, farewell->host, farewell->error}, generation, patience.began);
    }
  }
}

Trouble peek_trouble(Link const& link) noexcept {
  if (link.ended == PeerFailure::Why::left && !link.broken) {
    return Trouble::left;
  }
  if (link.ended || link.broken || !link.heard.empty()) {
    return Trouble::failed;
  }
  std::array<char, wire::kMaxFarewell + sizeof(std::uint64_t)> bytes{};
  ssize_t const n = ::recv(link.control.get(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (n < 0) {
    return errno == EAGAIN || errno == EINTR ? Trouble::none : Trouble::failed;
  }
  auto const farewell = wire::decode_farewell({bytes.data(), static_cast<std::size_t>(n)});
  bool const left = farewell && *farewell && (*farewell)->what == wire::Farewell::What::left;
  return left ? Trouble::left : Trouble::failed;
}

void send_farewell(Links& links, std::function<wire::Farewell()> const& farewell) noexcept {
  try {
    tell_all(links, wire::encode_farewell(farewell()));
  } catch (...) {  // no memory for it: closing has to tell
  }
  for (Link& link : links) {
    link.control.reset();
    link.data.reset();
  }
}

}  // namespace cxxrun::host
