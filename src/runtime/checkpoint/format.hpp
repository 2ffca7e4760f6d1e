// What is in a checkpoint file, what it is called, and whose the directory is. Pure, total: any bytes give a Header or
// an Error.
// docs/design/checkpoint_format.md has the bytes.
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

constexpr std::size_t kPreambleBytes = 16;            ///< enough to know how long the header is
constexpr std::size_t kMostHeaderBytes = 16U << 20U;  ///< a reader never believes in more
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

/// Why this cannot be saved (a name twice or too long, control characters, too many blobs), or nothing.
[[nodiscard]] std::optional<std::string> refusal(Header const& header);

/// Depends on the names and how many there are, not on the checksums. The blobs follow the header without gaps.
[[nodiscard]] std::size_t header_bytes(Header const& header);
/// Of header and blobs; nothing when that is more than a file can have (2^63 - 1).
[[nodiscard]] std::optional<std::uint64_t> file_bytes(Header const& header);
[[nodiscard]] std::vector<std::byte> encode(Header const& header);

/// How long the header says it is, from the first kPreambleBytes. Error: protocol.
[[nodiscard]] Result<std::size_t> decode_preamble(std::span<std::byte const> bytes);
/// `bytes`: the whole header; `size`: of the file. Errors: protocol when the file is damaged; usage when the header is
/// whole, and of a format this library does not know.
[[nodiscard]] Result<Header> decode(std::span<std::byte const> bytes, std::uint64_t size);

/// "step_00000000000000000042.ckpt", so that names sort like steps; and back, nothing for any other name.
[[nodiscard]] std::string file_name(std::uint64_t step);
[[nodiscard]] std::optional<std::uint64_t> step_of(std::string_view name);
/// The name a file has while it is written.
[[nodiscard]] inline std::string temporary_name(std::uint64_t step, unsigned number) {
  return file_name(step) + ".tmp" + std::to_string(number);
}
[[nodiscard]] bool is_temporary(std::string_view name);
/// Where a directory goes that has a checkpoint's name when that is saved.
[[nodiscard]] inline std::string aside_name(std::string const& name) {
  return name + ".directory";
}

/// Whose a checkpoint directory is: what its file `generation` says.
struct Claim {
  std::string run;  ///< one start of the job: generations are compared within it
  std::uint64_t generation = 0;
  bool operator==(Claim const&) const = default;
};

/// "generation 7 of run 4711.0" and a line end; and back, nothing for any other text.
[[nodiscard]] std::string format_claim(Claim const& claim);
[[nodiscard]] std::optional<Claim> parse_claim(std::string_view text);

enum class When : std::uint8_t { opening, saving };

struct Admission {
  std::string refusal;  ///< who owns the directory and what to do about it; empty: come in
  bool write = false;   ///< `mine` has to be written down first
  bool operator==(Admission const&) const = default;
};

/// `theirs`: what the directory says, nothing in a new one. An older generation of the same run is refused. Another
/// run (the job was submitted or requeued again, and its generations begin anew) takes the directory over when it
/// opens it; from then on the run before is refused.
[[nodiscard]] Admission admit(Claim const& mine, std::optional<Claim> const& theirs, When when);

}  // namespace cxxrun::checkpoint
