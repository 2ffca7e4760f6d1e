// Random numbers and names: nonces, run ids, secrets. Shell.
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
    std::abort();  // no supported kernel refuses
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

/// For secrets and nonces.
template <std::size_t N>
[[nodiscard]] std::array<unsigned char, N> random_bytes() {
  std::array<unsigned char, N> bytes{};
  fill_randomly(bytes.data(), N);
  return bytes;
}

}  // namespace cxxrun
