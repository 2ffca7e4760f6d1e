#include "src/core/port_sequence.hpp"

#include <algorithm>

#include "src/core/hash.hpp"

namespace cxxrun {

std::vector<std::uint16_t> port_sequence(std::string_view seed, std::size_t count) {
  constexpr std::uint64_t kFirst = 20000;
  constexpr std::uint64_t kPrime = 11987;  // any stride below a prime visits every port once
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
