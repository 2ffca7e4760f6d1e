// Random names: nonces and run ids.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace cxxrun {

/// Bytes from the kernel's random source, at most 256. Never blocks after boot.
inline void fill_randomly(void* to, std::size_t bytes) {
  if (getentropy(to, bytes) != 0) {
    std::abort();  // no kernel this program supports refuses
  }
}

/// At most 256 hexadecimal digits.
[[nodiscard]] inline std::string random_hex(std::size_t digits) {
  std::string text(digits, '\0');
  fill_randomly(text.data(), digits);
  for (char& c : text) {
    c = "0123456789abcdef"[static_cast<unsigned char>(c) & 0xFU];
  }
  return text;
}

[[nodiscard]] inline std::uint64_t random_number() {
  std::uint64_t number = 0;
  fill_randomly(&number, sizeof number);
  return number;
}

/// Secrets, and what has to be new every time.
template <std::size_t N>
[[nodiscard]] std::array<unsigned char, N> random_bytes() {
  std::array<unsigned char, N> bytes{};
  fill_randomly(bytes.data(), N);
  return bytes;
}

}  // namespace cxxrun
