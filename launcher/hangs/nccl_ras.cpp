#include "launcher/hangs/nccl_ras.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

#include "cxxrun/error.hpp"
#include "launcher/hangs/hang_text.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/system.hpp"
#include "src/base/os/tcp_sockets.hpp"

namespace cxxrun::launcher {
namespace {

constexpr Millis kFirstBytes{1000};  // a process that runs answers at once; one that is stopped never does
constexpr std::size_t kMostAnswer = std::size_t{64} * 1024;

/// One connection. "": nobody answers at the other end.
Result<std::string> ask_at(addrinfo const& to, TimePoint until) {
  auto const fd = os::begin_connect(to.ai_addr, to.ai_addrlen);
  if (!fd) {
    return fail(Errc::io, "none", fd.error().os_errno);
  }
  auto const first = std::min(until, Clock::now() + kFirstBytes);
  auto const becomes = [&](short what, TimePoint by) {
    pollfd waiting{fd->get(), what, 0};
    return ::poll(&waiting, 1, os::poll_time(by)) > 0;
  };
  if (!becomes(POLLOUT, first)) {
    return std::string();
  }
  if (::send(fd->get(), kRasQuestion.data(), kRasQuestion.size(), MSG_NOSIGNAL) < 0) {
    return fail(Errc::io, "none", errno);
  }
  std::string text;
  while (text.size() < kMostAnswer && becomes(POLLIN, text.empty() ? first : until)) {
    std::array<char, 4096> part{};
    auto const got = ::recv(fd->get(), part.data(), part.size(), 0);
    if (got <= 0) {
      return text.empty() ? Result<std::string>(fail(Errc::closed, "none: it hangs up")) : text;
    }
    text.append(part.data(), std::min(static_cast<std::size_t>(got), kMostAnswer - text.size()));
  }
  return text.empty() ? text : text + "\n(the rest is left out, or has not come within 5 s)\n";
}

}  // namespace

os::UniqueFd keep_ras_port(NodeFacts& facts) {
  auto port = os::gpu_devices() > 0 ? os::keep_loopback_port() : os::UniqueFd();
  facts.ras = port ? endpoint_text("127.0.0.1", os::port_of(port.get())) : "";
  return port;
}

std::string ask_ras(std::string const& address) {
  auto const until = Clock::now() + kRasPatience;
  auto const endpoint = parse_endpoint(address);
  if (!endpoint) {
    return "none: " + endpoint.error().message();
  }
  auto const found = os::resolve_within(kFirstBytes, endpoint->host, endpoint->port.value_or(0), SOCK_STREAM);
  if (!found) {
    return "none: " + found.error().message();
  }
  std::string why;
  bool silent = true;
  while (silent && Clock::now() < until) {  // another connection may lead to another process at the same port
    silent = false;
    for (addrinfo const* to = found->get(); to != nullptr; to = to->ai_next) {
      auto answer = ask_at(*to, until);
      if (answer && !answer->empty()) {
        return *std::move(answer);
      }
      silent = silent || answer;
      why = answer ? why : answer.error().message();
    }
  }
  return silent ? "none: no answer within 5 s" : why;
}

}  // namespace cxxrun::launcher
