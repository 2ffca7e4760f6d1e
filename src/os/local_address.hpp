// Addresses of this machine, and whether a name or address is one of them, found out by trying to bind it.
#pragma once

#include <string>
#include <sys/socket.h>
#include <vector>

#include "cxxrun/error.hpp"

namespace cxxrun::os {

/// True when some address of `host` (a name or a literal) can be bound here. Names are never compared: aliases,
/// second interfaces and /etc/hosts make that wrong. Resolves names, which may block for as long as the system's
/// resolver does. Errc::not_found, naming the host, when it has no address at all.
Result<bool> is_local_address(std::string const& host);

/// The numeric text of an IPv4 or IPv6 address, IPv4 within IPv6 as IPv4. Empty for other families and for link-local
/// addresses, which mean nothing without an interface.
[[nodiscard]] std::string address_text(sockaddr const* address);

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
