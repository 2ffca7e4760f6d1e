// Blame: collects which peer each failed or parked worker gave up on, and picks the rank to kill. Pure.
//
// A worker that has parked or failed reports the peer that its Communicator gave up on
// (src/base/worker/page_values.hpp). From the first report on the generation cannot succeed; what remains is to find
// out which rank failed. Rules and table: docs/design/survival.md; a test plays every row.
//
// Reports form chains: in groups, one rank waits for another that waits for a third. The rank at the end of a chain
// keeps all of them waiting. If it has not reported itself, it is blamed.
//
// Cost: `add_report` and `judge_blame` O(log N) each, amortized over all reports of a generation; O(N log N) once, for
// `most_blamed`. tests/bench/failing_bench.cpp measures it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/values/progress.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// How long to collect reports. After that a majority is enough to kill a rank; and if no unreported rank is blamed,
/// the generation stops.
inline constexpr Millis kReportWindow{1000};
/// The same, from the first report of a worker that has ended: the peer that it blames may be about to end, too.
inline constexpr Millis kExitWindow{200};

/// A rank that others gave up on and that has not reported itself.
struct BlamedRank {
  std::uint32_t reporters = 0;  ///< ranks that wait for it, directly or through others
  std::uint32_t lowest = 0;     ///< the lowest of them
};

struct BlameState {
  std::map<std::uint32_t, worker::Loss> reports;           ///< by reporting rank: the peer that it gave up on
  std::unordered_map<std::uint32_t, worker::Loss> chains;  ///< by reporting rank: a rank further along its chain
  std::map<std::uint32_t, BlamedRank> blamed;
  std::set<std::uint32_t> to_kill;           ///< blamed ranks without a kill order so far
  std::optional<std::uint32_t> by_majority;  ///< the last rank that more than half of the others blamed
  std::optional<TimePoint> first_report;
  std::optional<TimePoint> first_exit;  ///< first report of a worker that has ended
  std::optional<TimePoint> due;         ///< when to call `judge_blame` next
};

/// A rank to be killed, unless it ends or parks by itself.
struct BlameOrder {
  std::uint32_t rank = 0;
  PeerFailure::Why reason = PeerFailure::Why::died;
  std::string why;  ///< "did not arrive in time for 3 others"
  bool operator==(BlameOrder const&) const = default;
};

struct BlameJudgement {
  std::vector<BlameOrder> orders;
  bool stop = false;  ///< stop the generation for the worker that ended first
  /// Stop the generation for this rank. No worker has ended: all blamed ranks have reported, so they wait themselves.
  std::optional<BlameOrder> most_blamed = {};
};

/// `report.rank` has parked and blames a peer or none (worker::kNamesNobody); or it has `ended`, and its end is a
/// failure. Only the first report of a rank counts. `world`: number of ranks of the generation.
void add_report(BlameState& state, Named const& report, bool ended, std::uint32_t world, TimePoint now);
/// Ranks `first` to `first + count - 1` could not be killed: the next judgement orders those that are blamed again.
void order_again(BlameState& state, std::uint32_t first, std::uint32_t count);
[[nodiscard]] BlameJudgement judge_blame(BlameState& state, std::uint32_t world, TimePoint now);

}  // namespace cxxrun::rendezvous
