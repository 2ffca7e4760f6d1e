// FNV-1a with 64 bits: the same on every host and in every build, unlike std::hash. Not for anything secret.
#pragma once

#include <cstdint>
#include <string_view>

namespace cxxrun {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325ULL;
inline constexpr std::uint64_t kFnvPrime = 0x100000001b3ULL;

/// Of the text, or of `hash` and then the text.
[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvBasis) {
  for (char const c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * kFnvPrime;
  }
  return hash;
}

}  // namespace cxxrun
