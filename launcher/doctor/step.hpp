// `cxxrun --doctor` over several nodes: where they meet, which node calls which, and how the results are judged. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/doctor/finding.hpp"
#include "launcher/options/options.hpp"
#include "launcher/place/slurm_env.hpp"

namespace cxxrun::launcher::doctor {

// ---- where the nodes meet

struct StepMeeting {
  std::string id;                    ///< of this job, the same on all nodes
  std::string first;                 ///< the first node, as the others call it
  std::vector<std::uint16_t> ports;  ///< of the first node, which takes the first free one
  std::vector<std::string> names;    ///< of all nodes, in order; empty without Slurm
  std::uint32_t index = 0;           ///< of this node
  std::uint32_t nodes = 1;
  std::string local_addr = {};  ///< --local-addr
  bool by_address = false;      ///< the first node is given by address: no names are looked up
  bool operator==(StepMeeting const&) const = default;
};

/// Empty for a single node. Errc::usage if the flags ask for several nodes but lack the place or the rank; it says what
/// to add.
[[nodiscard]] Result<std::optional<StepMeeting>> meeting_of(Options const& options,
                                                            std::optional<SlurmStep> const& step);

/// The nodes that this one calls.
[[nodiscard]] std::vector<std::uint32_t> peers_in(StepMeeting const& meeting);
/// The names that this node must resolve: of the first node, and of the nodes that it calls if they are called by name.
[[nodiscard]] std::vector<std::string> names_to_know(StepMeeting const& meeting);
/// This node as the others call it: --local-addr; else, unless the first node is given by address, Slurm's name;
/// without Slurm, on the first node, the name that all were given; else the address from which packets to the first
/// node leave, which may be "".
[[nodiscard]] std::string name_for_others(StepMeeting const& meeting,
                                          std::function<std::string()> const& towards_first);

// ---- which node calls which

/// The nodes that node `index` calls. Up to 16 nodes: all others. More: the next one, and up to 3 at random by `seed`.
/// In each round every node is called by exactly one, so no node is called by more than 4.
[[nodiscard]] std::vector<std::uint32_t> peers_of(std::uint32_t index, std::uint32_t nodes, std::uint64_t seed);

/// One node's call to another.
struct Call {
  std::uint32_t to = 0;
  std::string error;      ///< "" if it came through
  double round_trip = 0;  ///< µs, the shortest of several
  double ahead = 0;       ///< µs by which the other node's clock is ahead
  bool operator==(Call const&) const = default;
};
/// Calls as facts, to be sent to the first node: "call.3" → "120 -44", or "call.3" → "! Connection refused".
[[nodiscard]] Facts write_calls(std::vector<Call> const& calls);
/// Total: skips what is malformed.
[[nodiscard]] std::vector<Call> read_calls(Facts const& facts);

/// What the first node knows about a node.
struct StepNode {
  std::string host;
  bool reported = false;
  Facts facts;
  std::vector<Call> calls;
};
/// Findings about the step as a whole: missing reports, failed calls, latency, clocks, differences, the shared working
/// directory, MUNGE.
[[nodiscard]] Findings judge_step(std::vector<StepNode> const& nodes);
/// The finding of a node that could not take part.
[[nodiscard]] Finding judge_no_table(Error const& why);

}  // namespace cxxrun::launcher::doctor
