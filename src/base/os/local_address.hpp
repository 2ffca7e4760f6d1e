// Names and addresses: resolving them, those of this machine, and whether one is among those, found out by trying to
// bind it.
#pragma once

#include <cstdint>
#include <memory>
#include <netdb.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/tcp_ends.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/bounded_thread.hpp"

namespace cxxrun::os {

/// What getaddrinfo(3) finds, as a list that is freed with its owner.
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;
/// `type`: SOCK_STREAM and so on. May block for as long as the system's resolver does. Errc::not_found, or timeout when
/// no name server answers, with the resolver's own words alone.
[[nodiscard]] Result<Addresses> resolve(std::string const& host, std::uint16_t port, int type, int flags = 0);
/// The same on a thread, so that several names are asked for at once. Numbers need no thread. One that has no answer
/// after `patience` is left behind.
class LookUp {
 public:
  LookUp(Millis patience, std::string const& host, std::uint16_t port, int type);
  /// Whether `take` would not block.
  [[nodiscard]] bool ready();
  /// Waits; to be called once. As `resolve`, timeout also when the patience is over, io when no thread could be
  /// started.
  [[nodiscard]] Result<Addresses> take();

 private:
  Millis patience_;
  TimePoint until_;
  std::shared_ptr<std::optional<Result<Addresses>>> found_;
  std::unique_ptr<BoundedThread> asking_;  ///< null when there is nothing to wait for
};
/// `LookUp` and its answer.
[[nodiscard]] Result<Addresses> resolve_within(Millis patience, std::string const& host, std::uint16_t port, int type);

/// How long a name server that does not answer is asked again: it may be busy, when a thousand nodes start.
inline constexpr Millis kForNameServer{60'000};
/// What to say while it is.
[[nodiscard]] std::string unknown_yet(std::string const& host, Millis patience);

/// What to say of a host whose name has no address. `later`: no name server has answered (EAI_AGAIN).
[[nodiscard]] std::string unknown_host(std::string const& host, bool later, std::string const& why);

/// True when some address of `host` (a name or a literal) can be bound here. Names are never compared: aliases,
/// second interfaces and /etc/hosts make that wrong. Resolves names, which may block for as long as the system's
/// resolver does. Errc::not_found, naming the host, when it has no address at all; timeout when no name server answers.
Result<bool> is_local_address(std::string const& host);

/// One end of a TCP connection; all zeros for a family that is not the internet's.
[[nodiscard]] TcpEnd tcp_end_of(sockaddr const* address);
/// What a socket is bound to, and what it is connected to; all zeros when it has no such end.
[[nodiscard]] TcpEnd own_end(int socket);
[[nodiscard]] TcpEnd other_end(int socket);
/// The port that a socket is bound to; 0 for no socket.
[[nodiscard]] inline std::uint16_t port_of(int socket) {
  return own_end(socket).port;
}

/// The numeric text of an address that says all by itself. Empty for no end and for link-local addresses, which mean
/// nothing without an interface.
[[nodiscard]] std::string plain_address(TcpEnd const& end);

/// The address from which packets to a host leave: a connected UDP socket knows it, and sends nothing. "" when no way
/// leads there, or the name is not known within `patience`.
[[nodiscard]] std::string address_towards(std::string const& host, std::uint16_t port, Millis patience);

/// One address of an interface that is up.
struct InterfaceAddress {
  std::string name;
  std::string address;
  bool loopback = false;  ///< the interface is
};
/// IPv4 before IPv6; no link-local ones.
[[nodiscard]] std::vector<InterfaceAddress> interface_addresses();

/// Addresses of this machine's interfaces that are up, IPv4 before IPv6, at most `most`: no loopback, no link-local.
[[nodiscard]] std::vector<std::string> own_addresses(std::size_t most);

}  // namespace cxxrun::os
