// Whole reads and writes, and what the errors of a disk mean to whoever has to free some. Shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cxxrun/failure.hpp"

namespace cxxrun::checkpoint {

/// What is read or written at once: fits into a core's cache, so that the checksum costs no trip to memory.
constexpr std::size_t kChunkBytes = 1U << 20U;

/// All of them, or false and errno.
[[nodiscard]] bool write_at(int fd, std::span<std::byte const> bytes, std::uint64_t offset);
/// As many as there are; nothing and errno when the disk fails.
[[nodiscard]] std::optional<std::size_t> read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset);
/// fsync of a file or directory; false and errno.
[[nodiscard]] bool force_to_disk(int fd);

/// "on HOST: FILE: REMEDY: text of errno".
[[nodiscard]] Failure disk_failure(std::string const& file, int os_errno);

}  // namespace cxxrun::checkpoint
