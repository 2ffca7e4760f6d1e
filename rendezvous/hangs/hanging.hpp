// Hanging: which rank keeps the others waiting in a collective, and for how long that may go on. Pure.
//
// Agents tell of workers that stand still (standstill.hpp), again and again while they do and once when they move; who
// is not told of moves, or shows nothing. From that `judge` finds the collective that ranks wait in and who is not in
// it. Rules and table: docs/use/hangs.md; a test plays every row. The coordinator's part of membership: watching.hpp.
//
// Cost: `report` O(log N) for each worker told of, `judge` O(N log N) of those that stand still and their groups, about
// once per second and only while one of them waits inside a collective, or may do so in a group.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/hangs/hang_state.hpp"
#include "rendezvous/values/standstill.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

struct HangPolicy {
  Millis timeout{0};  ///< --hang-timeout: who keeps others waiting for so long is killed; 0: nobody is

  /// From when on a line says so.
  [[nodiscard]] Millis warning() const {
    return timeout > Millis{0} ? std::min(timeout, kStandstillShown) : kStandstillShown;
  }
  /// How often agents look at their workers tells times less exactly than this.
  [[nodiscard]] static Millis blur(Millis limit) { return std::min(limit / 8, Millis{1500}); }
};

/// A rank to be killed, unless it has moved by the time its agent hears of it.
struct HangOrder {
  std::uint32_t rank = 0;
  std::uint64_t entered = 0;  ///< what the judgement rests on: worker::begun_in_all()
  std::string why;            ///< "did not enter all_reduce #812 (25 f32) for 62 s that 7 others waited in"
  bool operator==(HangOrder const&) const = default;
};

struct HangJudgement {
  HangState next;
  std::string line;  ///< for the log; "" = nothing new
  std::vector<HangOrder> orders;
};

/// The agent on `host` tells of its workers.
[[nodiscard]] HangState report(HangState state, std::string const& host, std::vector<Standstill> const& told,
                               TimePoint now, HangPolicy const& policy);
/// `world`: the ranks of the generation.
[[nodiscard]] HangJudgement judge(HangState state, std::uint32_t world, TimePoint now, HangPolicy const& policy);

}  // namespace cxxrun::rendezvous
