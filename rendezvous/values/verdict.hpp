// Verdict: how the job ended, decided once, by the coordinator.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/values/history.hpp"
#include "rendezvous/values/node_fault.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/exit_codes.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// One worker's failure, with where it happened.
struct Failure {
  std::string host;
  std::uint32_t group_rank = 0;
  WorkerExit exit;
  bool operator==(Failure const&) const = default;
};

/// A worker that had ended with 0 while others went on.
struct Leaver {
  std::uint32_t rank = 0;
  std::string host;
  std::int64_t wall_ms = 0;  ///< as in WorkerExit
  bool operator==(Leaver const&) const = default;
};

/// Names of ends; each has its exit code in docs/use/exit_codes.md.
enum class End {
  success,
  worker_failed,    ///< a worker failed and no restart was left
  failed_alike,     ///< three generations in a row died young, of failures that look the same
  could_not_start,  ///< a worker's program could not be executed: restarting cannot help
  too_few_nodes,    ///< fewer than MIN nodes came or remained
  stopped,          ///< the user or Slurm ended the job
  unkillable,       ///< a process survived SIGKILL and its node cannot be replaced
  partitioned,      ///< cut off from a quorum: the others may go on, so this side may not
  system_failure,   ///< the coordinator could not do its part (port in use, no descriptors)
};

[[nodiscard]] constexpr char const* name_of(End end) {
  switch (end) {
    case End::success: return "success";
    case End::worker_failed: return "worker failed";
    case End::failed_alike: return "failed the same way three times";
    case End::could_not_start: return "worker could not be started";
    case End::too_few_nodes: return "too few nodes";
    case End::stopped: return "stopped";
    case End::unkillable: return "unkillable worker";
    case End::partitioned: return "partitioned";
    case End::system_failure: return "system failure";
  }
  return "unknown";
}

struct Verdict {
  End end = End::success;
  int exit_code = 0;
  std::string summary;           ///< one line: what and where
  std::uint64_t generation = 0;  ///< last generation that ran
  std::uint32_t restarts = 0;    ///< consumed
  std::uint32_t max_restarts = 0;
  Millis restart_window{0};       ///< within which at most max_restarts were allowed; 0: in all
  std::vector<Failure> failures;  ///< the cause first, then what followed from it, by group rank and rank
  std::vector<Leaver> left;       ///< where all failures are victims: who had left before, in the order of their clocks
  std::map<std::string, std::uint32_t> stopped;  ///< how those ended that had to because of it: "SIGTERM by cxxrun"
  std::vector<Failure> killed;  ///< who had not ended when the time of the stop was over, by group rank and rank
  std::vector<std::string> lost_nodes;  ///< nodes lost during the job and not back, sorted by node
  std::vector<std::string> excluded;    ///< "host: why" of nodes that were excluded and not called back
  std::vector<std::string> followed;    ///< "failure followed rank 3 from a to b: …", one line each
  History history;                      ///< of the job until this verdict
  std::vector<NodeFault> node_faults;   ///< failures that were a node's own, oldest first; earlier runs' among them
  bool operator==(Verdict const&) const = default;
};

}  // namespace cxxrun::rendezvous
