// Ports for when the kernel has none left of those that it hands out. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/base/core/port_sequence.hpp"

namespace cxxrun {

/// "8080,9000-9010", "32768\t60999": what /proc/sys/net/ipv4/ip_local_reserved_ports and ip_local_port_range hold.
/// Anything else in it is skipped.
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

/// `count` distinct ports, or all there are, in an order that follows from `seed`: from 10000 on, none of `others`, and
/// none that coordinators derive (port_sequence).
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
  for (std::size_t i = 0; i < all.size() && chosen.size() < count; ++i) {  // Fisher and Yates, as far as is needed
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    std::swap(all[i], all[i + (seed >> 33U) % (all.size() - i)]);
    chosen.push_back(all[i]);
  }
  return chosen;
}

}  // namespace cxxrun
