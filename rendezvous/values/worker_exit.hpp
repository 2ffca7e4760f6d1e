// WorkerExit: how one worker of a generation ended, and what the report needs to explain it. Values.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/core/exit_status.hpp"
#include "src/base/worker/page_values.hpp"

namespace cxxrun::rendezvous {

/// Whether a worker failed by itself or because of another one. Read from its control page, else from its last output.
enum class Role {
  culprit,      ///< by itself, as far as is known
  waited,       ///< it waited too long for another one: a collective or a store timed out
  lost_peer,    ///< its connection to another one ended
  told_to_end,  ///< it says that it was told to end
};

struct WorkerExit {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  int pid = 0;
  ExitStatus status;
  bool ours = false;         ///< explained by our own stop: a signal we sent, or any exit after we asked
  std::int64_t wall_ms = 0;  ///< Unix time of the exit in ms, for display only: never compared
  std::string hung;          ///< why cxxrun killed it as hung: "did not enter all_reduce #812 …"; "" = not killed
  std::string cause;         ///< why it ended, as its node knows it: "killed by the kernel: memory limit …"
  std::string advice;        ///< the remedy for that cause; "" = none known
  bool of_job = false;       ///< the cause is the job's, not the node's: its own memory limit
  std::string stderr_tail;   ///< last lines, at most 20 and 8 KiB
  std::string told;          ///< the line of its stderr that says why; "" = none does
  Role role = Role::culprit;
  std::optional<worker::Loss> lost = {};  ///< the peer that it gave up before, by its control page
  std::string error_file;                 ///< the exception in the worker's TORCHELASTIC_ERROR_FILE; "" = none
  std::string log;                        ///< file on its host with all of its stderr; "" = none is kept
  bool operator==(WorkerExit const&) const = default;
};

/// Whether it failed because it had given up a peer; its control page proves that, whatever it printed. A killed worker
/// did not: no peer can cause SIGKILL. A worker that its peers gave up names itself as lost, and is no victim either.
[[nodiscard]] inline bool fails_for_a_peer(WorkerExit const& exit) {
  bool const killed = exit.status.kind == ExitStatus::Kind::signalled && exit.status.value == SIGKILL;
  return !exit.status.ok() && exit.lost && exit.lost->rank != exit.rank && !killed && exit.hung.empty();
}
/// Its role by its control page if that says more than `words`, the role by its output.
[[nodiscard]] inline Role role_of(WorkerExit const& exit, Role words) {
  if (exit.lost && exit.lost->rank == exit.rank) {
    return Role::culprit;
  }
  if (!fails_for_a_peer(exit)) {
    return words;
  }
  return exit.lost->why == PeerFailure::Why::timeout ? Role::waited : Role::lost_peer;
}

}  // namespace cxxrun::rendezvous
