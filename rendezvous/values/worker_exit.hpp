// WorkerExit: how one worker of a generation ended, with what the report needs to explain it.
#pragma once

#include <cstdint>
#include <string>

#include "src/core/exit_status.hpp"

namespace cxxrun::rendezvous {

struct WorkerExit {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  int pid = 0;
  ExitStatus status;
  bool ours = false;         ///< explained by our own stop: a signal we sent, or any exit after we asked
  std::int64_t wall_ms = 0;  ///< Unix time of the exit in ms, for display only: never compared
  std::string hung;          ///< why cxxrun killed it: "did not enter all_reduce #812 …"; "" = it did not
  std::string cause;   ///< what its node knows of why it ended: "killed by the kernel: memory limit …"; "" = nothing
  std::string advice;  ///< what helps against that; "" = nothing known
  std::string stderr_tail;  ///< last lines, at most 20 and 8 KiB
  std::string error_file;   ///< text of the worker's TORCHELASTIC_ERROR_FILE, at most 64 KiB; "" = none
  bool operator==(WorkerExit const&) const = default;
};

}  // namespace cxxrun::rendezvous
