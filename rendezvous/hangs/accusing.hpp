// Accusing: whom workers name that have given up a peer, and what follows for that peer. Pure.
//
// A worker that has parked, or has ended, says whom its Communicator gave up (src/base/worker/loss.hpp). From then on
// the generation cannot succeed: what is decided here is who failed. Rules and table: docs/design/survival.md; a test
// plays every row.
//
// Cost: `accuse` and `judge` O(log N) each, on average over all words of a generation; O(N log N) once, for `blamed`.
// tests/bench/failing_bench.cpp measures it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/values/standstill.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// How long the others may take to speak before most of them are enough; or before nobody is waited for, where no
/// silent one is named.
inline constexpr Millis kSpeak{1000};
/// How long the end of a worker that names a peer waits for that peer's own.
inline constexpr Millis kOwnEnd{200};

/// A rank that is named and has not spoken: chains of words end at it.
struct Accused {
  std::uint32_t by = 0;     ///< who waits for it, through others perhaps
  std::uint32_t first = 0;  ///< the lowest of these
};

struct AccusingState {
  std::map<std::uint32_t, worker::Loss> words;            ///< by who says it: whom it has given up
  std::unordered_map<std::uint32_t, worker::Loss> steps;  ///< from a rank that speaks to another one of its chain
  std::map<std::uint32_t, Accused> accused;
  std::set<std::uint32_t> to_order;      ///< of these, who has not been ordered yet
  std::optional<std::uint32_t> by_most;  ///< the last one for whom more than half of the others waited
  std::optional<TimePoint> since;        ///< the first word
  std::optional<TimePoint> ended;        ///< the first one of a worker that has ended
  std::optional<TimePoint> due;          ///< when `judge` is to be called
};

/// A rank to be ended, unless it ends or parks by itself.
struct AccusedOrder {
  std::uint32_t rank = 0;
  PeerFailure::Why named = PeerFailure::Why::died;
  std::string why;  ///< "did not arrive in time for 3 others"
  bool operator==(AccusedOrder const&) const = default;
};

struct AccusingJudgement {
  AccusingState next;
  std::vector<AccusedOrder> orders;
  bool stop = false;                        ///< the generation is to be stopped for the worker that ended first
  std::optional<AccusedOrder> blamed = {};  ///< it is to be stopped, and nobody ended: all those that are named wait
};

/// `named.rank` has parked, and names a peer or nobody (worker::kNamesNobody); or has ended, and its end is a failure.
/// `world`: the ranks of the generation, `named.rank` among them.
[[nodiscard]] AccusingState accuse(AccusingState state, Named const& named, bool ended, std::uint32_t world,
                                   TimePoint now);
/// Of those that are ordered to end, ranks `first` to `first + count - 1` cannot be: they are ordered once more.
[[nodiscard]] AccusingState order_again(AccusingState state, std::uint32_t first, std::uint32_t count);
[[nodiscard]] AccusingJudgement judge(AccusingState state, std::uint32_t world, TimePoint now);

}  // namespace cxxrun::rendezvous
