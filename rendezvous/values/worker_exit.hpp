// WorkerExit: how one worker of a generation ended, with what the report needs to explain it.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/core/exit_status.hpp"
#include "src/base/worker/loss.hpp"

namespace cxxrun::rendezvous {

/// What its page, or else its last words make of a worker that failed: nobody else's doing, or one that failed because
/// another one did.
enum class Role {
  culprit,      ///< nothing says otherwise
  waited,       ///< for another one, for too long: a collective or a store timed out
  lost_peer,    ///< the connection to another one ended
  told_to_end,  ///< it says so itself
};

struct WorkerExit {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  int pid = 0;
  ExitStatus status;
  bool ours = false;         ///< explained by our own stop: a signal we sent, or any exit after we asked
  std::int64_t wall_ms = 0;  ///< Unix time of the exit in ms, for display only: never compared
  std::string hung;          ///< why cxxrun killed it: "did not enter all_reduce #812 …"; "" = it did not
  std::string cause;    ///< what its node knows of why it ended: "killed by the kernel: memory limit …"; "" = nothing
  std::string advice;   ///< what helps against that; "" = nothing known
  bool of_job = false;  ///< what it died of is the job's own doing, whatever its node: a limit on memory that it has
  std::string stderr_tail;  ///< last lines, at most 20 and 8 KiB
  std::string told;         ///< the line of its stderr that says why; "" = none does
  Role role = Role::culprit;
  std::optional<worker::Loss> lost = {};  ///< whom it gave up before, by its page; nothing: nobody, or it has no page
  std::string error_file;                 ///< the exception in the worker's TORCHELASTIC_ERROR_FILE; "" = none
  std::string log;                        ///< file with all of its stderr, on its host; "" = none is kept
  bool operator==(WorkerExit const&) const = default;
};

/// Whether it failed because it had given up a peer: that is known, whatever its words say. Not of one that was killed:
/// no peer brings that about. One that the others gave up names itself, and is nobody's victim.
[[nodiscard]] inline bool fails_for_a_peer(WorkerExit const& exit) {
  bool const killed = exit.status.kind == ExitStatus::Kind::signalled && exit.status.value == SIGKILL;
  return !exit.status.ok() && exit.lost && exit.lost->rank != exit.rank && !killed && exit.hung.empty();
}
/// Its role, where it is known by more than `words`.
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
