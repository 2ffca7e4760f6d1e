// Which ports to listen at. Pure.
//
// All agents of a job derive the same sequence of ports from the same text, so that no port has to be passed around.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/core/hash.hpp"

namespace cxxrun {

/// The coordinator's port by default, as in torchrun: for --rdzv-endpoint without one.
inline constexpr std::uint16_t kDefaultPort = 29400;
/// How many ports of a sequence are tried before giving up.
inline constexpr std::size_t kPortsTried = 16;

/// Both ends included; 0 to 0: the kernel chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool operator==(PortRange const&) const = default;
};

/// Derived ports lie below Linux's ephemeral range, which starts at 32768, so that no outgoing connection takes one by
/// chance.
inline constexpr PortRange kDerivedPorts{20000, 31986};
inline constexpr std::uint64_t kDerived = kDerivedPorts.last - kDerivedPorts.first + 1;
static_assert(kDerived == 11987, "a prime: any stride below it visits every port once");

/// `count` distinct derived ports, at most kDerived. The sequence is part of the protocol: agents of different builds
/// must agree on it (FNV-1a, 64 bits).
[[nodiscard]] inline std::vector<std::uint16_t> port_sequence(std::string_view seed, std::size_t count) {
  constexpr std::uint64_t kFirst = kDerivedPorts.first;
  constexpr std::uint64_t kPrime = kDerived;
  std::uint64_t const hash = fnv1a(seed);
  std::uint64_t const start = hash % kPrime;
  std::uint64_t const stride = 1 + (hash >> 32) % (kPrime - 1);
  std::vector<std::uint16_t> ports;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, kPrime); ++i) {
    ports.push_back(static_cast<std::uint16_t>(kFirst + (start + i * stride) % kPrime));
  }
  return ports;
}

/// Reads /proc/sys/net/ipv4/ip_local_reserved_ports and ip_local_port_range: "8080,9000-9010", "32768\t60999". Skips
/// anything else.
[[nodiscard]] inline std::vector<PortRange> port_ranges(std::string_view text) {
  std::vector<PortRange> ranges;
  std::uint32_t number = 0;
  bool digits = false;
  bool second = false;
  auto const end = [&] {
    if (digits && number <= 65535) {
      auto const port = static_cast<std::uint16_t>(number);
      second && !ranges.empty() ? void(ranges.back().last = port) : ranges.push_back({port, port});
    }
    number = 0;
    digits = false;
  };
  for (char const c : text) {
    if (c >= '0' && c <= '9') {
      digits = true;
      number = std::min<std::uint32_t>(number * 10 + static_cast<std::uint32_t>(c - '0'), 65536);
    } else {
      end();
      second = c == '-' || c == '\t';
    }
  }
  end();
  return ranges;
}

/// Ports to listen at when the kernel has handed out all of its own: `count` distinct ones, or all there are, in an
/// order that follows from `seed`. From 10000 on, without `others` and without those of port_sequence().
[[nodiscard]] inline std::vector<std::uint16_t> spare_ports(std::vector<PortRange> others, std::uint64_t seed,
                                                            std::size_t count) {
  constexpr std::uint32_t kFirst = 10000;
  constexpr std::uint32_t kLast = 65535;
  others.push_back(kDerivedPorts);
  std::vector<std::uint16_t> all;
  for (std::uint32_t port = kFirst; port <= kLast; ++port) {
    if (std::none_of(others.begin(), others.end(),
                     [port](PortRange const& range) { return range.first <= port && port <= range.last; })) {
      all.push_back(static_cast<std::uint16_t>(port));
    }
  }
  std::vector<std::uint16_t> chosen;
  for (std::size_t i = 0; i < all.size() && chosen.size() < count; ++i) {  // Fisher-Yates, as far as needed
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    std::swap(all[i], all[i + (seed >> 33U) % (all.size() - i)]);
    chosen.push_back(all[i]);
  }
  return chosen;
}

}  // namespace cxxrun
