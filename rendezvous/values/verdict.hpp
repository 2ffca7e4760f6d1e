// Verdict: how the job ended. The coordinator decides it once: after a failure rule(), membership/cause.hpp. Values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/values/history.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// One worker's failure, and where it happened.
struct Failure {
  std::string host;
  std::uint32_t group_rank = 0;
  WorkerExit exit;
  bool operator==(Failure const&) const = default;
};

/// A worker that had ended with exit code 0 while others continued.
struct Leaver {
  std::uint32_t rank = 0;
  std::string host;
  std::int64_t wall_ms = 0;  ///< as in WorkerExit
  bool operator==(Leaver const&) const = default;
};

/// Ways to end; docs/use/exit_codes.md has the exit code of each.
enum class End {
  success,
  worker_failed,    ///< a worker failed and no restart was left
  failed_alike,     ///< three generations in a row died young from failures that look the same
  could_not_start,  ///< a worker's program could not be executed: a restart cannot help
  too_few_nodes,    ///< fewer than MIN nodes joined or remained
  stopped,          ///< the user or Slurm ended the job
  unkillable,       ///< a process survived SIGKILL and its node cannot be replaced
  partitioned,      ///< cut off from a quorum: the other side may continue, so this one must not
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
  Millis restart_window{0};       ///< max_restarts counts within this time; 0: within the job's life
  std::vector<Failure> failures;  ///< the cause first, then its consequences by group rank and rank
  std::vector<Leaver> left;       ///< if all failures are consequences: workers that had left before, by their clocks
  std::map<std::string, std::uint32_t> stopped;  ///< how many were stopped because of it, by how: "SIGTERM by cxxrun"
  std::vector<Failure> killed;          ///< workers still running when the grace was over, by group rank and rank
  std::vector<std::string> lost_nodes;  ///< nodes lost during the job and not back, sorted
  std::vector<std::string> excluded;    ///< "host: why" of nodes that were excluded and not called back
  std::vector<std::string> followed;    ///< one line each: "failure followed rank 3 from a to b: …"
  History history;                      ///< of the job until this verdict
  std::vector<NodeFault> node_faults;   ///< oldest first, with those of earlier runs
  bool operator==(Verdict const&) const = default;
};

}  // namespace cxxrun::rendezvous
