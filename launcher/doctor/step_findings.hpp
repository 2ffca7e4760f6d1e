// What the nodes of a step are to each other: whom each one calls, and what comes of it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/doctor/finding.hpp"

namespace cxxrun::launcher::doctor {

/// The nodes that node `index` calls: up to 16 nodes all others; of more the next one and up to 3 at random by `seed`,
/// so that each is called by at most as many as call at all in a round, and other pairs are tried by another seed.
[[nodiscard]] std::vector<std::uint32_t> peers_of(std::uint32_t index, std::uint32_t nodes, std::uint64_t seed);

/// One node's call of another.
struct Call {
  std::uint32_t to = 0;
  std::string error;      ///< "" when it came through
  double round_trip = 0;  ///< µs, the shortest of several
  double ahead = 0;       ///< µs, by which the other one's clock is ahead
  bool operator==(Call const&) const = default;
};
/// Facts on the way to the node that prints: "call.3" → "120 -44", or "call.3" → "! Connection refused".
[[nodiscard]] Facts write_calls(std::vector<Call> const& calls);
/// Total: what cannot be read is left out.
[[nodiscard]] std::vector<Call> read_calls(Facts const& facts);

/// A node as the one that prints knows it.
struct StepNode {
  std::string host;
  bool came = false;
  Facts facts;
  std::vector<Call> calls;
};
/// Lines about the step as a whole: who did not come, who cannot call whom, latency, clocks, what differs, whether the
/// working directory is shared.
[[nodiscard]] Findings judge_step(std::vector<StepNode> const& nodes);
/// On a node that could not take part: why.
[[nodiscard]] Finding judge_no_table(Error const& why);

}  // namespace cxxrun::launcher::doctor
