// Whether a name or address belongs to this machine, found out by trying to bind it.
#pragma once

#include <string>
#include <vector>

#include "cxxrun/error.hpp"

namespace cxxrun::os {

/// True when some address of `host` (a name or a literal) can be bound here. Names are never compared: aliases,
/// second interfaces and /etc/hosts make that wrong. Resolves names, which may block for as long as the system's
/// resolver does. Errc::not_found, naming the host, when it has no address at all.
Result<bool> is_local_address(std::string const& host);

/// Addresses of this machine's interfaces that are up, IPv4 before IPv6, at most `most`: no loopback, no link-local.
[[nodiscard]] std::vector<std::string> own_addresses(std::size_t most);

}  // namespace cxxrun::os
