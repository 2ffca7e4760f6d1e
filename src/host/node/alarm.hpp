// The node's alarm: the first failure of a call, which all ranks of the node then throw. Shell.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "cxxrun/failure.hpp"
#include "src/core/time.hpp"
#include "src/host/node/node_layout.hpp"

namespace cxxrun::host {

/// A failure without the clock of the one who noticed it.
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
/// Anything else than a PeerFailure or Failure becomes Errc::io of `who` ("rank 3 on node2").
[[nodiscard]] FailureFacts facts_of(std::exception_ptr const& why, std::string const& who);
[[noreturn]] void throw_failure(FailureFacts const& facts, std::uint64_t generation, TimePoint began);

/// Writes the failure if nobody has before. `gone(index)`: a writer that stopped halfway is taken over from.
template <class Gone>
void raise_alarm(Alarm& alarm, int index, FailureFacts const& facts, Gone const& gone);

[[nodiscard]] inline bool is_raised(Alarm const& alarm) {
  return alarm.state.load(std::memory_order_acquire) == Alarm::kRaised;
}
[[nodiscard]] FailureFacts read_alarm(Alarm const& alarm);

void write_alarm(Alarm& alarm, FailureFacts const& facts);  ///< for raise_alarm

template <class Gone>
void raise_alarm(Alarm& alarm, int index, FailureFacts const& facts, Gone const& gone) {
  std::uint32_t const mine = Alarm::kWriting + static_cast<std::uint32_t>(index);
  for (std::uint32_t seen = Alarm::kQuiet; seen != Alarm::kRaised;) {
    bool const free = seen == Alarm::kQuiet || (seen != mine && gone(static_cast<int>(seen - Alarm::kWriting)));
    if (free && alarm.state.compare_exchange_strong(seen, mine)) {
      write_alarm(alarm, facts);
      return;
    }
    if (!free) {
      seen = alarm.state.load();
    }
  }
}

}  // namespace cxxrun::host
