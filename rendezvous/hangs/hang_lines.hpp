// What is said of a HangFinding: in the log, and as the cause of a worker's death. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/hangs/hang_finding.hpp"

namespace cxxrun::rendezvous {

/// So many are named in a line, and the rest is counted; so many are killed, for one death ends the generation for all.
inline constexpr std::size_t kMostNamed = 8;

/// The line for the log; "": there is nothing to say.
[[nodiscard]] std::string line_about(HangFinding const& found, std::uint32_t world);
/// What a line is about, so that it is said once; "" = nothing.
[[nodiscard]] std::string subject(HangFinding const& found);

struct AccusedWorker {
  HangState::Seen const* seen = nullptr;
  std::string why;
};
/// Of those that are late the furthest behind; else, where all of the world waits, those that mean something else by
/// the collective than more than half of it. At most kMostNamed.
[[nodiscard]] std::vector<AccusedWorker> accused_by(HangFinding const& found, std::uint32_t world);

}  // namespace cxxrun::rendezvous
