// Hang detector: finds the collective that ranks wait in, and the rank that keeps them waiting. Pure.
//
// Agents report workers whose collectives have not moved for a while (values/progress.hpp): again and again while
// that lasts, and once when they move again. A rank that is not reported moves, or shows nothing. `judge_hangs` finds
// from this which ranks are late. Rules and table: docs/use/hangs.md; a test plays every row.
//
// Cost: `on_standstills` O(log N) for each worker reported; `judge_hangs` O(N log N) of the stalled ranks and their
// groups, about once per second and only while one of them is in a collective, or may be in one of a group.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/values/progress.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

struct HangPolicy {
  Millis timeout{0};  ///< --hang-timeout: a rank that keeps others waiting for this long is killed; 0: never

  /// After this time a line names the rank.
  [[nodiscard]] Millis warning() const {
    return timeout > Millis{0} ? std::min(timeout, kStandstillShown) : kStandstillShown;
  }
  /// Agents poll their workers, so times are inexact by up to this much.
  [[nodiscard]] static Millis blur(Millis limit) { return std::min(limit / 8, Millis{1500}); }
};

/// A rank whose collectives do not move.
struct StalledRank {
  Standstill last;
  std::string host;
  TimePoint since;  ///< when it stopped moving, by the coordinator's clock
};

struct HangState {
  std::map<std::uint32_t, StalledRank> ranks;
  std::set<std::uint32_t> ordered;  ///< ranks with a kill order; a rank that moves after all may get another one
  std::string said;                 ///< subject of the last line; "": nothing is wrong
  std::optional<TimePoint> due;     ///< when to call `judge_hangs` next
};

/// A rank to be killed, unless it has moved when its agent receives this.
struct HangOrder {
  std::uint32_t rank = 0;
  std::uint64_t entered = 0;  ///< what it had begun when it was judged: worker::begun_in_all()
  std::string why;            ///< "did not enter all_reduce #812 (25 f32) for 62 s that 7 others waited in"
  bool operator==(HangOrder const&) const = default;
};

struct HangJudgement {
  std::string line;  ///< for the log; "" = nothing new
  std::vector<HangOrder> orders;
};

/// What the agent on `host` reports of its workers.
void on_standstills(HangState& state, std::string const& host, std::vector<Standstill> const& reported, TimePoint now,
                    HangPolicy const& policy);
/// `world`: number of ranks of the generation.
[[nodiscard]] HangJudgement judge_hangs(HangState& state, std::uint32_t world, TimePoint now, HangPolicy const& policy);

}  // namespace cxxrun::rendezvous
