// The failures of calls, and the node's alarm: the first failure of a call, which all ranks of the node then throw.
// Shell.
#pragma once

#include <exception>
#include <string>
#include <unistd.h>

#include "cxxrun/failure.hpp"
#include "src/base/core/time.hpp"
#include "src/runtime/cpu/node/node_layout.hpp"

namespace cxxrun::host {

/// A failure without the time that PeerFailure::after measures.
struct FailureFacts {
  bool peer = true;
  PeerFailure::Why why = PeerFailure::Why::died;
  int rank = 0;
  std::string host;
  Error error;
};
/// The launcher has ended the generation.
[[nodiscard]] inline FailureFacts stopped_by_launcher() {
  return {.why = PeerFailure::Why::stopped, .rank = -1, .host = {}, .error = {}};
}
[[nodiscard]] inline FailureFacts facts_of(Error error) {
  return {.peer = false, .host = {}, .error = std::move(error)};
}
/// An exception other than PeerFailure and Failure becomes Errc::io of `who` ("rank 3 on node2").
[[nodiscard]] FailureFacts facts_of(std::exception_ptr const& why, std::string const& who);
[[noreturn]] void throw_failure(FailureFacts const& facts, std::uint64_t generation, TimePoint began);

/// Throws Failure in any other process than `owner`. A forked child has a copy of a Communicator's memory, but neither
/// its threads nor its device.
inline void require_own(pid_t owner) {
  if (pid_t const self = ::getpid(); self != owner) {
    throw Failure(fail(Errc::usage, "process " + std::to_string(self) + " was forked from process " +
                                        std::to_string(owner) +
                                        ", which owns this Communicator: use it there, or fork before "
                                        "Communicator::init()"));
  }
}

/// Writes the failure and raises the alarm. The caller must be the alarm's writer.
void write_alarm(Alarm& alarm, FailureFacts const& facts);
[[nodiscard]] FailureFacts read_alarm(Alarm const& alarm);

}  // namespace cxxrun::host
