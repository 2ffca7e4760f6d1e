// FNV-1a with 64 bits: the same on every host and in every build, unlike std::hash. Not for anything secret.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cxxrun {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325ULL;
inline constexpr std::uint64_t kFnvPrime = 0x100000001b3ULL;

/// The hash of the text, or its continuation from `hash`.
[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvBasis) {
  for (char const c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * kFnvPrime;
  }
  return hash;
}

/// The same for all texts that differ only in their numbers: times, process ids and addresses.
[[nodiscard]] constexpr std::uint64_t fnv1a_without_numbers(std::string_view text, std::uint64_t hash = kFnvBasis) {
  auto const is_digit = [](char c) { return c >= '0' && c <= '9'; };
  bool hex = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    hex = hex ? is_digit(text[i]) || (text[i] >= 'a' && text[i] <= 'f') : text[i] == 'x' && i > 0 && text[i - 1] == '0';
    if (!hex && !is_digit(text[i])) {
      hash = (hash ^ static_cast<unsigned char>(text[i])) * kFnvPrime;
    }
  }
  return hash;
}

}  // namespace cxxrun
