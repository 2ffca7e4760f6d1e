// Endpoint: host[:port] as people write it, with IPv6 literals in brackets. Pure: no name is resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cxxrun/error.hpp"

namespace cxxrun {

struct Endpoint {
  std::string host;  ///< a name or a literal, without brackets
  std::optional<std::uint16_t> port;
  bool operator==(Endpoint const&) const = default;
};

/// Errors (Errc::usage) name the text and the remedy.
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);
/// A host without a port. Brackets around an IPv6 literal are allowed and removed.
[[nodiscard]] Result<std::string> parse_host(std::string_view text);
/// 0 (any port) to 65535.
[[nodiscard]] Result<std::uint16_t> parse_port(std::string_view text);
/// "host:port", with brackets around an IPv6 literal.
[[nodiscard]] std::string endpoint_text(std::string_view host, std::uint16_t port);

/// An IPv4 or IPv6 literal (an IPv6 scope such as %eth0 is allowed), not a name.
[[nodiscard]] bool is_ip_literal(std::string_view host);
/// localhost, 127.x.y.z or ::1.
[[nodiscard]] bool is_loopback(std::string_view host);
/// Whether two names can be the same host: equal without regard to case, or one is the first label of the other.
[[nodiscard]] bool same_host_name(std::string_view a, std::string_view b);

}  // namespace cxxrun
