// Claim: whose a checkpoint directory is. The file `generation` in it, and what may be done with one. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cxxrun::checkpoint {

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
