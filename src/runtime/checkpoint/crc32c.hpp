// CRC-32C (Castagnoli, reflected, as in iSCSI, leveldb and ext4). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cxxrun::checkpoint {

/// CRC of the bytes seen so far (`crc`, 0 at the start) followed by `bytes`.
[[nodiscard]] std::uint32_t crc32c(std::span<std::byte const> bytes, std::uint32_t crc = 0);
/// The same without the CPU's instruction; crc32c() falls back to it.
[[nodiscard]] std::uint32_t crc32c_portable(std::span<std::byte const> bytes, std::uint32_t crc = 0);

}  // namespace cxxrun::checkpoint
