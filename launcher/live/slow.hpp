// Slow: which ranks the others wait for, step after step. Pure and total: workers may tell any numbers.
// docs/use/live.md.
//
// Nodes read the figures of their workers every 5 s, all at the same instants. A window lies between two readings of
// all ranks, and has at least 10 steps. In a window a rank is behind when it is much later than the others; it is slow
// when it was behind in 3 of 5 windows, and no more when in none of 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/core/time.hpp"

namespace cxxrun::launcher::live {

inline constexpr Millis kWindow{5000};

/// How it is known how late a rank is. The first one of which all ranks have figures decides.
enum class Source : std::uint8_t {
  calls,  ///< time inside calls of libcxxrun: the one that the others wait for spends the least
  ddp,    ///< the log of DistributedDataParallel
  begun,  ///< how many collectives it has begun, compared with the ranks of its node
};
enum class Kind : std::uint8_t { unknown, computing, input };

/// What a node has read of one of its workers. Times in microseconds where nothing else is said; 0: not known.
struct Reading {
  std::uint32_t rank = 0;
  std::uint32_t node = 0;   ///< rank of the first worker of its node
  std::int64_t heard = 0;   ///< when the pulse came, in milliseconds of the coordinator's clock
  std::int64_t step = 0;    ///< training steps completed until then
  std::int64_t at = 0;      ///< when the following was read, in milliseconds of the node's wall clock
  std::int64_t inside = 0;  ///< inside calls of libcxxrun, in this generation
  std::int64_t sample = 0;  ///< number of the newest step in the log of DistributedDataParallel, and its times
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  std::int64_t reducing = 0;
  std::int64_t looks = 0;         ///< how often it was looked how many collectives were begun
  std::int64_t looked_begun = 0;  ///< sum of these numbers
  std::int64_t looked_at = 0;     ///< sum of these instants, in milliseconds of the node's clock
  std::int64_t fed = 0;           ///< it has waited for its DataLoaders
};

/// A slow rank, or a node all ranks of which are slow.
struct Slow {
  std::uint32_t rank = 0;   ///< the first one
  std::uint32_t ranks = 1;  ///< more than 1: all ranks of the node
  Millis late{0};           ///< in each step, at its latest window
  Millis step{0};           ///< time of a step
  Source source = Source::calls;
  Kind kind = Kind::unknown;  ///< by DistributedDataParallel's log, or by the time that DataLoaders take
  bool operator==(Slow const&) const = default;
};

/// The windows of a generation.
struct Windows {
  struct Rank {
    Reading base;             ///< at the beginning of the window
    std::int64_t sample = 0;  ///< the last one that was judged
    bool looked = false;      ///< the two means are known
    double mean_begun = 0;    ///< of the looks of the last window
    double mean_at = 0;
    unsigned behind = 0;  ///< bit i: it was behind i windows ago
    unsigned counted = 0;
    bool is_slow = false;
    Slow last;  ///< what was found when it was last behind
  };
  std::vector<Rank> ranks;
  bool warm = false;  ///< the first window, which has the first steps, is over
  std::vector<Slow> slow;
};

struct Change {
  Slow who;
  bool over = false;
};
/// Closes the window unless it has too few steps. `now`: the readings of all ranks, in their order. Returns who has
/// become slow, and who is no more.
[[nodiscard]] std::vector<Change> close_window(Windows& windows, std::vector<Reading> const& now);
/// A node or the coordinator stood still for a while: what was found before that does not count.
void empty(Windows& windows);

/// By how much each rank is later than the others, if by so much that it is behind. All in the unit of `step`, and
/// `late` from any zero; ranks of which nothing is known are left out.
[[nodiscard]] std::vector<std::optional<double>> who_is_behind(std::vector<std::optional<double>> const& late,
                                                               double step);

}  // namespace cxxrun::launcher::live
