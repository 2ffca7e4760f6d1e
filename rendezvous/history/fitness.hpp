// Fitness: which failures are a node's own, and which follow the program to wherever it runs. Pure. Rules in words:
// docs/design/membership.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/values/node_fault.hpp"
#include "rendezvous/values/worker_exit.hpp"

namespace cxxrun::rendezvous {

/// A node that was excluded for its failures. It is not to blame if they go on without it.
struct Suspect {
  std::string host;
  std::optional<std::uint32_t> group_rank;  ///< then; none: it had no seat
  std::uint64_t look = 0;                   ///< of its last failure
  bool operator==(Suspect const&) const = default;
};

/// What is remembered of the failures of a job.
struct Fitness {
  std::string culprit;                      ///< node key of the last failure's cause
  std::uint32_t in_a_row = 0;               ///< that it was the first to fail
  std::vector<NodeFault> doubtful;          ///< of these, exits with a code: as likely the program's own doing
  std::vector<NodeFault> faults;            ///< that were a node's own, oldest first; earlier runs' among them
  std::map<std::string, Suspect> suspects;  ///< by node key
  std::set<std::uint32_t> failing;          ///< group ranks that failures have followed
  std::set<std::uint64_t> common;           ///< looks of failures that more than one node has had
  std::vector<std::string> lines;           ///< for the report: "failure followed rank 3 from a to b: …"
  bool operator==(Fitness const&) const = default;
};

/// Of this node in this run, and of its host in earlier ones.
[[nodiscard]] std::vector<NodeFault> faults_of(Fitness const& fitness, std::string const& key, std::string const& host);
/// "the cause of 2 failures, the last one rank 3: signal 7 (SIGBUS)"; there is one at least.
[[nodiscard]] std::string fault_text(std::vector<NodeFault> const& faults);
void note_fault(Fitness& fitness, NodeFault fault);
/// What goes into a decree: the newest of this run.
[[nodiscard]] std::vector<NodeFault> faults_in_short(Fitness const& fitness);
/// Goes on with what a decree has; of earlier runs everybody knows by itself.
void inherit_faults(Fitness& fitness, std::vector<NodeFault> const& decided);

/// A worker of a node was the first to fail.
struct FirstFailure {
  std::string key;  ///< of the node
  std::string host;
  std::uint32_t group_rank = 0;
  WorkerExit exit;  ///< of_job: it says nothing of any node
};
struct Blame {
  bool again = false;              ///< the node is to blame, and not for the first time
  bool running = false;            ///< twice running
  std::vector<std::string> ranks;  ///< keys of suspects whose rank fails on another node as well
  std::vector<std::string> looks;  ///< keys of suspects whose failure another node has as well
};
/// Suspects that are acquitted are none any more, and their failures are forgotten.
[[nodiscard]] Blame blame(Fitness& fitness, FirstFailure const& first);
/// The node that was blamed last is excluded for it.
void suspect(Fitness& fitness, FirstFailure const& first);

}  // namespace cxxrun::rendezvous
