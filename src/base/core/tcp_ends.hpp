// TcpEnds: the two ends of a TCP connection, and what a kernel knows of the socket at one of them. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cxxrun {

struct TcpEnd {
  std::array<std::uint8_t, 16> address{};  ///< IPv4 within IPv6, ::ffff:a.b.c.d
  std::uint16_t port = 0;
  bool operator==(TcpEnd const&) const = default;
};

struct TcpEnds {
  TcpEnd caller;  ///< the end that connected
  TcpEnd called;
  bool operator==(TcpEnds const&) const = default;
};

/// The four bytes of an IPv4 address, or the sixteen of an IPv6 one.
[[nodiscard]] TcpEnd tcp_end(std::uint8_t const* address, bool v4, std::uint16_t port);
[[nodiscard]] bool is_v4(TcpEnd const& end);
/// 127.x.y.z or ::1.
[[nodiscard]] bool is_loopback(TcpEnd const& end);
/// "10.1.2.3", "fd00::1".
[[nodiscard]] std::string address_text(TcpEnd const& end);
/// "10.1.2.3:40112", "[fd00::1]:40112"; and back.
[[nodiscard]] std::string end_text(TcpEnd const& end);
[[nodiscard]] std::optional<TcpEnd> parse_end(std::string_view text);

/// The socket at the caller's end, as its kernel lists it.
struct SeenSocket {
  TcpEnds ends;
  bool established = false;
  std::uint32_t uid = 0;
  std::uint64_t inode = 0;  ///< 0: no process holds it any more
  bool operator==(SeenSocket const&) const = default;
};
/// From a line of /proc/net/tcp or tcp6; nothing for a heading.
[[nodiscard]] std::optional<SeenSocket> parse_socket_line(std::string_view line);

/// Whether a process with the user id `own` can tell other users from itself. In a user namespace all users without a
/// mapping appear as `overflow`; a process that appears so itself cannot tell. `map`: the text of /proc/self/uid_map.
[[nodiscard]] bool tells_users_apart(std::uint32_t own, std::uint32_t overflow, std::string_view map);

}  // namespace cxxrun
