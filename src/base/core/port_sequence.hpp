// Which ports to take: a range, or those that every agent of a job derives from the same text, so that nobody has to
// pass one around.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/base/core/hash.hpp"

namespace cxxrun {

/// Where a coordinator listens unless told otherwise: torchrun's port, for --rdzv-endpoint without one.
inline constexpr std::uint16_t kDefaultPort = 29400;
/// How many ports of a sequence are tried before giving up.
inline constexpr std::size_t kPortsTried = 16;

/// Both included; 0 to 0: the kernel chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool operator==(PortRange const&) const = default;
};

/// Derived ports are below Linux's ephemeral range, which starts at 32768, so that no outgoing connection holds one by
/// chance.
inline constexpr PortRange kDerivedPorts{20000, 31986};
inline constexpr std::uint64_t kDerived = kDerivedPorts.last - kDerivedPorts.first + 1;
static_assert(kDerived == 11987, "a prime: any stride below it visits every port once");

/// `count` distinct ones (at most kDerived). The sequence is part of the protocol: agents of different builds must
/// agree on it (FNV-1a, 64 bits).
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

}  // namespace cxxrun
