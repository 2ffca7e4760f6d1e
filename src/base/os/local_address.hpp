// Names and addresses: resolving names, and the addresses of this machine and of its sockets. Shell.
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
#include "src/base/os/thread.hpp"

namespace cxxrun::os {

/// The result of getaddrinfo(3), freed with its owner.
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;
/// `type`: SOCK_STREAM and so on. May block as long as the system's resolver does. Errc::not_found, or timeout when no
/// name server answers; the context is only the resolver's own message.
[[nodiscard]] Result<Addresses> resolve(std::string const& host, std::uint16_t port, int type, int flags = 0);
/// The same on a thread, so that several names can be looked up at once. Numeric addresses need no thread. A thread
/// without an answer after `patience` is left behind.
class LookUp {
 public:
  LookUp(Millis patience, std::string const& host, std::uint16_t port, int type);
  /// Whether `take` would not block.
  [[nodiscard]] bool ready();
  /// Waits for the answer; call it once. Errors as `resolve`; timeout also after `patience`, io when no thread could be
  /// started.
  [[nodiscard]] Result<Addresses> take();

 private:
  Millis patience_;
  TimePoint until_;
  std::shared_ptr<std::optional<Result<Addresses>>> found_;
  std::unique_ptr<BoundedThread> asking_;  ///< null when the answer is known
};
/// LookUp and take() in one call.
[[nodiscard]] Result<Addresses> resolve_within(Millis patience, std::string const& host, std::uint16_t port, int type);

/// How long to ask a name server that does not answer: it may be busy when a thousand nodes start.
inline constexpr Millis kForNameServer{60'000};
/// The line for the log meanwhile.
[[nodiscard]] std::string unknown_yet(std::string const& host, Millis patience);

/// The message for a host name without an address. `later`: no name server has answered (EAI_AGAIN).
[[nodiscard]] std::string unknown_host(std::string const& host, bool later, std::string const& why);

/// Whether `host` (a name or a literal) is this machine: whether one of its addresses can be bound here. It does not
/// compare names, because aliases, second interfaces and /etc/hosts make that wrong. May block as long as the system's
/// resolver does. Errc::not_found, naming the host, when it has no address; timeout when no name server answers.
Result<bool> is_local_address(std::string const& host);

/// As an end of a TCP connection; all zeros for a family other than IPv4 and IPv6.
[[nodiscard]] TcpEnd tcp_end_of(sockaddr const* address);
/// The end that a socket is bound to, and the end that it is connected to; all zeros when there is none.
[[nodiscard]] TcpEnd own_end(int socket);
[[nodiscard]] TcpEnd other_end(int socket);
/// The port that a socket is bound to; 0 for no socket.
[[nodiscard]] inline std::uint16_t port_of(int socket) {
  return own_end(socket).port;
}

/// The numeric text of an address. "" for no end, and for link-local addresses, which mean nothing without an
/// interface.
[[nodiscard]] std::string plain_address(TcpEnd const& end);

/// The address from which packets to a host leave, taken from a connected UDP socket; nothing is sent. "" when there is
/// no route, or the name is not resolved within `patience`.
[[nodiscard]] std::string address_towards(std::string const& host, std::uint16_t port, Millis patience);

/// One address of an interface that is up.
struct InterfaceAddress {
  std::string name;
  std::string address;
  bool loopback = false;  ///< of the loopback interface
};
/// IPv4 before IPv6, without link-local addresses.
[[nodiscard]] std::vector<InterfaceAddress> interface_addresses();

/// At most `most` addresses of this machine's interfaces that are up, IPv4 before IPv6, without loopback and link-local
/// addresses.
[[nodiscard]] std::vector<std::string> own_addresses(std::size_t most);

}  // namespace cxxrun::os
