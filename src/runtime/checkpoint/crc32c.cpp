#include "src/runtime/checkpoint/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace cxxrun::checkpoint {
namespace {

using Table = std::array<std::uint32_t, 256>;

// Slicing by 8: table k is for a byte followed by k more bytes.
constexpr std::array<Table, 8> make_tables() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78U;
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    }
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      std::uint32_t const before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8U) ^ tables[0][before & 0xffU];
    }
  }
  return tables;
}
constexpr std::array<Table, 8> kTables = make_tables();

std::uint64_t load64(std::byte const* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

#if defined(__x86_64__)
// One stream of the instruction: about 8 bytes in 3 cycles, several times faster than a disk.
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<std::byte const> bytes, std::uint32_t crc) {
  std::uint64_t sum = ~crc;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    sum = __builtin_ia32_crc32di(sum, load64(bytes.data()));
  }
  auto rest = static_cast<std::uint32_t>(sum);
  for (std::byte const byte : bytes) {
    rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(byte));
  }
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<std::byte const> bytes, std::uint32_t crc) {
  crc = ~crc;
  if constexpr (std::endian::native == std::endian::little) {
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
      std::uint64_t const word = load64(bytes.data()) ^ crc;
      crc = 0;
      for (unsigned k = 0; k < 8; ++k) {
        crc ^= kTables[7 - k][(word >> (8 * k)) & 0xffU];
      }
    }
  }
  for (std::byte const byte : bytes) {
    crc = (crc >> 8U) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(byte)) & 0xffU];
  }
  return ~crc;
}

std::uint32_t crc32c(std::span<std::byte const> bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  static bool const has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) {
    return by_instruction(bytes, crc);
  }
#endif
  return crc32c_portable(bytes, crc);
}

}  // namespace cxxrun::checkpoint
