#include "src/base/core/endpoint.hpp"

#include <arpa/inet.h>
#include <array>

#include "src/base/core/text.hpp"

namespace cxxrun {

namespace {

bool is_family(int family, std::string_view host) {
  in6_addr address{};
  return inet_pton(family, std::string(host).c_str(), &address) == 1;
}

bool is_ipv6(std::string_view host) {
  auto const scope = host.find('%');
  return scope + 1 != host.size() && is_family(AF_INET6, host.substr(0, scope));
}

bool is_name(std::string_view host) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !host.empty() && host.size() <= 255 && host.front() != '-' &&
         host.find_first_not_of(kAllowed) == std::string_view::npos;
}

/// The address that the system would read from this host without asking a name server: "0.0.4.210" for "1234", because
/// inet_aton(3) knows shorter spellings than A.B.C.D and other bases. "": it is a name, or A.B.C.D.
std::string short_for(std::string_view host) {
  in_addr address{};
  std::array<char, INET_ADDRSTRLEN> text{};
  bool const is_short = !is_family(AF_INET, host) && inet_aton(std::string(host).c_str(), &address) != 0;
  return is_short ? inet_ntop(AF_INET, &address, text.data(), text.size()) : "";
}

Error bad(std::string_view text, std::string const& why) {
  return fail(Errc::usage, "'" + printable(text) + "': " + why);
}

}  // namespace

Result<std::uint16_t> parse_port(std::string_view text) {
  auto const number = parse_unsigned(text, 0, 65535);
  return number ? Result<std::uint16_t>(static_cast<std::uint16_t>(*number)) : Result<std::uint16_t>(number.error());
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  bool const bracketed = text.starts_with('[');
  auto const close = text.find(']');
  if (bracketed && close == std::string_view::npos) {
    return bad(text, "the bracket is not closed; write [IPV6]:PORT");
  }
  if (!bracketed && is_ipv6(text)) {
    return bad(text, "an IPv6 address needs brackets; write [" + std::string(text) + "]:PORT");
  }
  std::string_view const host = bracketed ? text.substr(1, close - 1) : text.substr(0, text.find(':'));
  std::string_view const rest = text.substr(bracketed ? close + 1 : host.size());
  if (host.empty()) {
    return bad(text, "the host is missing; write HOST:PORT");
  }
  if (bracketed ? !is_ipv6(host) : !is_name(host)) {
    return bad(text, "'" + printable(host) + "' is not a host name or address; write HOST:PORT");
  }
  if (auto const address = short_for(host); !address.empty()) {
    return bad(text, "'" + std::string(host) + "' would be taken for the address " + address +
                         ", not for a name; write HOST:PORT, with a name or A.B.C.D");
  }
  Endpoint endpoint{std::string(host), std::nullopt};
  if (rest.empty()) {
    return endpoint;
  }
  auto const port = parse_unsigned(rest.substr(1), 0, 65535);
  if (rest.front() != ':' || !port) {
    return bad(text, "'" + printable(rest.substr(rest.front() == ':' ? 1 : 0)) + "' is no port; ports are 0 to 65535");
  }
  endpoint.port = static_cast<std::uint16_t>(*port);
  return endpoint;
}

Result<std::string> parse_host(std::string_view text) {
  if (is_ip_literal(text)) {
    return std::string(text);
  }
  auto endpoint = parse_endpoint(text);
  if (!endpoint) {
    return endpoint.error();
  }
  if (endpoint->port) {
    return bad(text, "a host is expected here, without a port");
  }
  return endpoint->host;
}

std::string endpoint_text(std::string_view host, std::uint16_t port) {
  std::string const name(host);
  return (is_ipv6(host) ? "[" + name + "]" : name) + ":" + std::to_string(port);
}

bool is_ip_literal(std::string_view host) {
  return is_family(AF_INET, host) || is_ipv6(host);
}

bool is_loopback(std::string_view host) {
  return lower(host) == "localhost" || host == "::1" || (is_family(AF_INET, host) && host.starts_with("127."));
}

bool same_host_name(std::string_view a, std::string_view b) {
  std::string const x = lower(a);
  std::string const y = lower(b);
  return x == y || (!is_ip_literal(a) && !is_ip_literal(b) && (x.starts_with(y + ".") || y.starts_with(x + ".")));
}

}  // namespace cxxrun
