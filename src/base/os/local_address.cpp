#include "src/base/os/local_address.hpp"

#include <cerrno>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {
namespace {

bool can_bind(addrinfo const& address) {
  UniqueFd const fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Port 0: any. EADDRINUSE means that every port is taken, which the kernel says only of an address of ours.
  return fd && (bind(fd.get(), address.ai_addr, address.ai_addrlen) == 0 || errno == EADDRINUSE);
}

TcpEnd end_of(int socket, int (*name_of)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  return name_of(socket, any, &size) == 0 ? tcp_end_of(any) : TcpEnd{};
}

}  // namespace

Result<Addresses> resolve(std::string const& host, std::uint16_t port, int type, int flags) {
  addrinfo hints{};
  hints.ai_socktype = type;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int const error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return fail(error == EAI_AGAIN ? Errc::timeout : Errc::not_found, gai_strerror(error));
  }
  return Addresses(found, freeaddrinfo);
}

LookUp::LookUp(Millis patience, std::string const& host, std::uint16_t port, int type)
    : patience_(patience),
      until_(Clock::now() + std::min(patience, kForever)),
      found_(std::make_shared<std::optional<Result<Addresses>>>()) {
  if (auto number = resolve(host, port, type, AI_NUMERICHOST)) {
    found_->emplace(std::move(number));
    return;
  }
  asking_ = BoundedThread::start("resolver", [=, found = found_] { found->emplace(resolve(host, port, type)); });
  if (asking_ == nullptr) {
    found_->emplace(fail(Errc::io, "no thread can be started to ask"));
  }
}

bool LookUp::ready() {
  auto const now = Clock::now();
  return asking_ == nullptr || asking_->join_until(now) || now >= until_;
}

Result<Addresses> LookUp::take() {
  if (asking_ != nullptr && !asking_->join_until(until_)) {
    return fail(Errc::timeout, "no name server has answered within " + seconds_text(patience_));
  }
  return *std::move(*found_);
}

Result<Addresses> resolve_within(Millis patience, std::string const& host, std::uint16_t port, int type) {
  return LookUp(patience, host, port, type).take();
}

std::string unknown_yet(std::string const& host, Millis patience) {
  return "cannot resolve host " + host + " yet: no name server answers (/etc/resolv.conf); trying for " +
         seconds_text(patience);
}

std::string unknown_host(std::string const& host, bool later, std::string const& why) {
  std::string const what = "cannot resolve host " + host + ": ";
  return later ? what +
                     "no name server answers (/etc/resolv.conf): add the name to /etc/hosts, or give an address with "
                     "--rdzv-endpoint"
               : what + why + "; this node must know that name (getent hosts " + shell_quote(host) +
                     "), else give an address with --rdzv-endpoint";
}

Result<bool> is_local_address(std::string const& host) {
  auto const found = resolve(host, 0, SOCK_STREAM);
  if (!found) {
    auto const code = found.error().code;
    return fail(code, unknown_host(host, code == Errc::timeout, found.error().context));
  }
  for (auto const* each = found->get(); each != nullptr; each = each->ai_next) {
    if (can_bind(*each)) {
      return true;
    }
  }
  return false;
}

TcpEnd own_end(int socket) {
  return end_of(socket, ::getsockname);
}

TcpEnd other_end(int socket) {
  return end_of(socket, ::getpeername);
}

std::string plain_address(TcpEnd const& end) {
  bool const link_local = end.address[0] == 0xfe && (end.address[1] & 0xc0U) == 0x80;  // fe80::/10
  return link_local || end == TcpEnd{} ? "" : address_text(end);
}

std::string address_towards(std::string const& host, std::uint16_t port, Millis patience) {
  auto const found = resolve_within(patience, host, port, SOCK_DGRAM);
  for (addrinfo const* each = found ? found->get() : nullptr; each != nullptr; each = each->ai_next) {
    UniqueFd const fd(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd && ::connect(fd.get(), each->ai_addr, each->ai_addrlen) == 0) {
      if (auto text = plain_address(own_end(fd.get())); !text.empty()) {
        return text;
      }
    }
  }
  return "";
}

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return {};
  }
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> const owner(list, freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (int const family : {AF_INET, AF_INET6}) {
    for (ifaddrs const* each = list; each != nullptr; each = each->ifa_next) {
      constexpr unsigned kUp = IFF_UP;
      constexpr unsigned kLoopback = IFF_LOOPBACK;
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family || (each->ifa_flags & kUp) == 0) {
        continue;
      }
      if (auto address = plain_address(tcp_end_of(each->ifa_addr)); !address.empty()) {
        found.push_back({each->ifa_name, std::move(address), (each->ifa_flags & kLoopback) != 0});
      }
    }
  }
  return found;
}

TcpEnd tcp_end_of(sockaddr const* address) {
  if (address->sa_family == AF_INET) {
    auto const& v4 = reinterpret_cast<sockaddr_in const&>(*address);
    return tcp_end(reinterpret_cast<std::uint8_t const*>(&v4.sin_addr), true, ntohs(v4.sin_port));
  }
  auto const& v6 = reinterpret_cast<sockaddr_in6 const&>(*address);
  return address->sa_family == AF_INET6 ? tcp_end(v6.sin6_addr.s6_addr, false, ntohs(v6.sin6_port)) : TcpEnd{};
}

std::vector<std::string> own_addresses(std::size_t most) {
  std::vector<std::string> found;
  for (auto& [name, address, loopback] : interface_addresses()) {
    if (!loopback && found.size() < most) {
      found.push_back(std::move(address));
    }
  }
  return found;
}

}  // namespace cxxrun::os
