#include "src/base/core/tcp_ends.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <vector>

#include "src/base/core/endpoint.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun {
namespace {

constexpr std::array<std::uint8_t, 12> kV4Within{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
constexpr std::uint64_t kAllUsers = UINT32_MAX;  // the last number is no user
constexpr std::string_view kEstablished = "01";

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = trim(text)).empty()) {
    auto const end = std::min(text.find_first_of(" \t\n"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

/// "0100007F:1F90": each group of four bytes is a number in this machine's byte order.
std::optional<TcpEnd> parse_hex_end(std::string_view text) {
  auto const colon = text.find(':');
  auto const port =
      colon == std::string_view::npos ? std::nullopt : number_in<std::uint16_t>(text.substr(colon + 1), 16);
  if (!port || (colon != 8 && colon != 32)) {
    return std::nullopt;
  }
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t at = 0; at < colon; at += 8) {
    auto const group = number_in<std::uint32_t>(text.substr(at, 8), 16);
    if (!group) {
      return std::nullopt;
    }
    std::memcpy(bytes.data() + at / 2, &*group, sizeof *group);
  }
  return tcp_end(bytes.data(), colon == 8, *port);
}

}  // namespace

TcpEnd tcp_end(std::uint8_t const* address, bool v4, std::uint16_t port) {
  TcpEnd end;
  end.port = port;
  auto const into = v4 ? std::copy(kV4Within.begin(), kV4Within.end(), end.address.begin()) : end.address.begin();
  std::copy_n(address, v4 ? 4 : 16, into);
  return end;
}

bool is_v4(TcpEnd const& end) {
  return std::equal(kV4Within.begin(), kV4Within.end(), end.address.begin());
}

bool is_loopback(TcpEnd const& end) {
  return is_v4(end) ? end.address[12] == 127 : std::memcmp(end.address.data(), &in6addr_loopback, 16) == 0;
}

std::string address_text(TcpEnd const& end) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  bool const v4 = is_v4(end);
  inet_ntop(v4 ? AF_INET : AF_INET6, end.address.data() + (v4 ? 12 : 0), text.data(), text.size());
  return text.data();
}

std::string end_text(TcpEnd const& end) {
  return endpoint_text(address_text(end), end.port);
}

std::optional<TcpEnd> parse_end(std::string_view text) {
  auto const endpoint = parse_endpoint(text);
  if (!endpoint || !endpoint->port) {
    return std::nullopt;
  }
  std::array<std::uint8_t, 16> bytes{};
  for (bool const v4 : {true, false}) {
    if (inet_pton(v4 ? AF_INET : AF_INET6, endpoint->host.c_str(), bytes.data()) == 1) {
      return tcp_end(bytes.data(), v4, *endpoint->port);
    }
  }
  return std::nullopt;
}

std::optional<SeenSocket> parse_socket_line(std::string_view line) {
  auto const words = words_of(line);  // sl local remote st queues timer retransmissions uid timeout inode …
  if (words.size() < 10) {
    return std::nullopt;
  }
  auto const caller = parse_hex_end(words[1]);
  auto const called = parse_hex_end(words[2]);
  auto const uid = number_in<std::uint32_t>(words[7]);
  auto const inode = number_in<std::uint64_t>(words[9]);
  if (!caller || !called || !uid || !inode) {
    return std::nullopt;
  }
  return SeenSocket{{*caller, *called}, words[3] == kEstablished, *uid, *inode};
}

bool tells_users_apart(std::uint32_t own, std::uint32_t overflow, std::string_view map) {
  std::uint64_t mapped = 0;
  auto const words = words_of(map);  // of each line: first inside, first outside, how many
  for (std::size_t at = 2; at < words.size(); at += 3) {
    mapped += number_in<std::uint32_t>(words[at]).value_or(0);
  }
  return own != overflow || mapped >= kAllUsers;
}

}  // namespace cxxrun
