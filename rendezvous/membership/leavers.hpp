// Leavers: ranks that have ended with 0 while others go on. That is a job's normal end, or why the others will fail or
// hang: a line names them once that has lasted some seconds. Pure.
//
// Cost: O(log N) for each that is told of, O(N log N) for a line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// An agent tells of a worker when it has been gone for so long, and its node's others go on.
inline constexpr Millis kLeftFor{5'000};

struct LeaversState {
  struct Ranks {
    std::uint32_t count = 0;
    std::string host;
  };
  std::map<std::uint32_t, Ranks> left;  ///< by the first rank
  std::uint32_t told = 0;               ///< how many the last line was about
  std::optional<TimePoint> due;         ///< when `tell_leavers` is to be called
};

/// `count` ranks from `first` on have left; a line may be due in `patience`. Parts of them may be known already.
[[nodiscard]] LeaversState note_leavers(LeaversState state, std::uint32_t first, std::uint32_t count,
                                        std::string const& host, TimePoint now, Millis patience);

struct LeaversLine {
  LeaversState next;
  std::string line;  ///< "" = nothing new: not twice as many as in the line before
};
/// `world`: the ranks of the generation.
[[nodiscard]] LeaversLine tell_leavers(LeaversState state, std::uint32_t world);

}  // namespace cxxrun::rendezvous
