// TcpEnds: the two ends of a TCP connection, and what a kernel says of the socket at one of them. Pure.
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
  TcpEnd caller;  ///< who has connected
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

/// What a kernel says of the socket at the caller's end.
struct SeenSocket {
  TcpEnds ends;
  bool established = false;
  std::uint32_t uid = 0;
  std::uint64_t inode = 0;  ///< 0: no process has it any more
  bool operator==(SeenSocket const&) const = default;
};
/// A line of /proc/net/tcp or tcp6; nothing for their headings.
[[nodiscard]] std::optional<SeenSocket> parse_socket_line(std::string_view line);

/// Whether a process with this user id sees other users as others. In a user namespace each user that it does not map
/// shows as `overflow`: whoever shows so himself cannot tell. `map`: the text of /proc/self/uid_map.
[[nodiscard]] bool tells_users_apart(std::uint32_t own, std::uint32_t overflow, std::string_view map);

}  // namespace cxxrun
