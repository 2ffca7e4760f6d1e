// Checkpoint files and their names, and who owns a checkpoint directory. Pure and total: any bytes give a Header or an
// Error.
// docs/design/checkpoint_format.md describes the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"

namespace cxxrun::checkpoint {

constexpr std::size_t kPreambleBytes = 16;            ///< enough to read the length of the header
constexpr std::size_t kMostHeaderBytes = 16U << 20U;  ///< a reader rejects longer headers
constexpr std::size_t kMostNameBytes = 255;

struct Entry {
  std::string name;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  bool operator==(Entry const&) const = default;
};

struct Header {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  std::string model;
  std::vector<Entry> blobs;
  bool operator==(Header const&) const = default;
};

/// CRC-32C (Castagnoli, reflected, as in iSCSI, leveldb and ext4) of the bytes seen so far (`crc`, 0 at the start)
/// followed by `bytes`.
[[nodiscard]] std::uint32_t crc32c(std::span<std::byte const> bytes, std::uint32_t crc = 0);
/// The same without the CPU's instruction; crc32c() falls back to it.
[[nodiscard]] std::uint32_t crc32c_portable(std::span<std::byte const> bytes, std::uint32_t crc = 0);

/// The reason why this cannot be saved (duplicate or invalid names, too many blobs), or nothing.
[[nodiscard]] std::optional<std::string> refusal(Header const& header);

/// Size of the header; depends on the names, not on the checksums. The blobs follow it without gaps.
[[nodiscard]] std::size_t header_bytes(Header const& header);
/// Size of header and blobs; nothing if a file cannot be that large (2^63 - 1).
[[nodiscard]] std::optional<std::uint64_t> file_bytes(Header const& header);
[[nodiscard]] std::vector<std::byte> encode(Header const& header);

/// The length of the header, from the first kPreambleBytes. Error: protocol.
[[nodiscard]] Result<std::size_t> decode_preamble(std::span<std::byte const> bytes);
/// `bytes`: the whole header; `size`: of the file. Errors: protocol if the file is damaged; usage if the header is
/// valid but has a format that this library does not know.
[[nodiscard]] Result<Header> decode(std::span<std::byte const> bytes, std::uint64_t size);

/// "step_00000000000000000042.ckpt": names sort like steps. step_of() is the inverse; nothing for any other name.
[[nodiscard]] std::string file_name(std::uint64_t step);
[[nodiscard]] std::optional<std::uint64_t> step_of(std::string_view name);
/// The name of a file while it is being written.
[[nodiscard]] inline std::string temporary_name(std::uint64_t step, unsigned number) {
  return file_name(step) + ".tmp" + std::to_string(number);
}
[[nodiscard]] bool is_temporary(std::string_view name);
/// The new name of a directory that is in the way of a checkpoint's name.
[[nodiscard]] inline std::string aside_name(std::string const& name) {
  return name + ".directory";
}

/// The owner of a checkpoint directory, as in its file `generation`.
struct Claim {
  std::string run;  ///< one start of the job; generations are compared within a run
  std::uint64_t generation = 0;
  bool operator==(Claim const&) const = default;
};

/// "generation 7 of run 4711.0" and a newline. parse_claim() is the inverse; nothing for any other text.
[[nodiscard]] std::string format_claim(Claim const& claim);
[[nodiscard]] std::optional<Claim> parse_claim(std::string_view text);

enum class When : std::uint8_t { opening, saving };

struct Admission {
  std::string refusal;  ///< who owns the directory and what to do; empty: admitted
  bool write = false;   ///< `mine` has to be written to the directory first
  bool operator==(Admission const&) const = default;
};

/// `theirs`: the directory's current claim; nothing in a new directory. An older generation of the same run is refused.
/// Another run (the job was submitted or requeued again, and its generations count from the start) takes the directory
/// over when it opens it; from then on the previous run is refused.
[[nodiscard]] Admission admit(Claim const& mine, std::optional<Claim> const& theirs, When when);

}  // namespace cxxrun::checkpoint
