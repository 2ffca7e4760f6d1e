// Leavers: ranks that have ended with 0 while others go on. That may be the normal end of a job, or the reason why the
// others will fail or hang, so a line names them after some seconds. Pure.
//
// Cost: O(log N) for each report, O(N log N) for a line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// An agent reports a worker that ended this long ago while others on its node go on.
inline constexpr Millis kLeftFor{5'000};

struct LeaversState {
  struct Ranks {
    std::uint32_t count = 0;
    std::string host;
  };
  std::map<std::uint32_t, Ranks> left;  ///< by the first rank
  std::uint32_t told = 0;               ///< number of ranks in the last line
  std::optional<TimePoint> due;         ///< when to call `tell_leavers` next
};

/// `count` ranks from `first` on have left; a line may be due after `patience`. Some of them may be known already.
void note_leavers(LeaversState& state, std::uint32_t first, std::uint32_t count, std::string const& host, TimePoint now,
                  Millis patience);
/// The line; "": fewer than twice as many as in the last line. `world`: number of ranks of the generation.
[[nodiscard]] std::string tell_leavers(LeaversState& state, std::uint32_t world);

}  // namespace cxxrun::rendezvous
