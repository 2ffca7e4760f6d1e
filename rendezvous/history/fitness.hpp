// Fitness: tells failures that are a node's own from failures that follow the program to every node. Pure.
// Rules in words: docs/design/membership.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/values/history.hpp"
#include "rendezvous/values/worker_exit.hpp"

namespace cxxrun::rendezvous {

/// A node that was excluded for its failures. It is cleared if the failures go on without it.
struct Suspect {
  std::string host;
  std::optional<std::uint32_t> group_rank;  ///< when it was excluded; none: it had no seat
  std::uint64_t look = 0;                   ///< of its last failure
  bool operator==(Suspect const&) const = default;
};

/// What is remembered of the failures of a job.
struct Fitness {
  std::string last_node;                    ///< key of the node that was the first to fail, the last time
  std::uint32_t in_a_row = 0;               ///< how often in a row it was the first
  std::vector<NodeFault> doubtful;          ///< of these failures, exits with a code: the program may be the cause
  std::vector<NodeFault> faults;            ///< that were a node's own, oldest first; those of earlier runs, too
  std::map<std::string, Suspect> suspects;  ///< by node key
  std::set<std::uint32_t> failing;          ///< group ranks that failures have followed from node to node
  std::set<std::uint64_t> common;           ///< looks of failures that more than one node has had
  std::vector<std::string> lines;           ///< for the report: "failure followed rank 3 from a to b: …"
  bool operator==(Fitness const&) const = default;
};

/// The faults of this node in this run, and of its host in earlier runs.
[[nodiscard]] std::vector<NodeFault> faults_of(Fitness const& fitness, std::string const& key, std::string const& host);
/// "the cause of 2 failures, the last one rank 3: signal 7 (SIGBUS)". Requires at least one fault.
[[nodiscard]] std::string fault_text(std::vector<NodeFault> const& faults);
void note_fault(Fitness& fitness, NodeFault fault);
/// What goes into a decree: the newest faults of this run.
[[nodiscard]] std::vector<NodeFault> faults_in_short(Fitness const& fitness);
/// Replaces the faults of this run by those of a decree. Every agent knows those of earlier runs by itself.
void inherit_faults(Fitness& fitness, std::vector<NodeFault> const& decided);

/// The first worker failure of a generation, and its node.
struct FirstFailure {
  std::string key;  ///< of the node
  std::string host;
  std::uint32_t group_rank = 0;
  WorkerExit exit;  ///< of_job: it says nothing about any node
};
/// Whose fault a failure was.
struct Attribution {
  bool repeated = false;             ///< the node is at fault, and not for the first time
  bool in_a_row = false;             ///< and it was the first to fail the last time, too
  std::vector<std::string> by_rank;  ///< keys of suspects that are cleared: their rank fails on another node, too
  std::vector<std::string> by_look;  ///< keys of suspects that are cleared: another node has the same failure
};
/// Records the failure. Suspects that it clears are suspects no more.
[[nodiscard]] Attribution attribute_failure(Fitness& fitness, FirstFailure const& first);
/// The node of the failure that was attributed last is excluded for it.
void add_suspect(Fitness& fitness, FirstFailure const& first);

}  // namespace cxxrun::rendezvous
