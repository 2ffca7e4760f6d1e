#include "src/runtime/cpu/rails/rail_link.hpp"

#include <cerrno>
#include <poll.h>
#include <sys/socket.h>

#include "src/base/os/fd.hpp"
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

}  // namespace

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
