// History: what happened in a job so far. Time by use, past generations, failures in a row, faults of nodes.
//
// A short form is part of every decree, so that a newly elected coordinator continues from it. It holds durations only:
// an instant of one host's clock means nothing on another host. Kept by rendezvous/history; what users see of it:
// docs/use/verdict.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// What a stretch of a job's time was spent on.
enum class Spent {
  waiting,     ///< for nodes, and for the vote on a generation
  startup,     ///< from a formed generation to its first training step
  training,    ///< from the first step to the newest one, or to the end if it did not fail; without `checkpoint`
  checkpoint,  ///< how long checkpoints held up training, as far as workers report it
  lost,        ///< from the newest step of a failed generation until the next one trains
  stopping,    ///< without a failure: until all workers have ended
};
inline constexpr std::array kAllSpent{Spent::waiting,    Spent::startup, Spent::training,
                                      Spent::checkpoint, Spent::lost,    Spent::stopping};
inline constexpr std::size_t kSpentKinds = kAllSpent.size();

[[nodiscard]] constexpr char const* name_of(Spent spent) {
  constexpr std::array<char const*, kSpentKinds> kNames{"waiting",    "startup", "training",
                                                        "checkpoint", "lost",    "stopping"};
  return kNames[static_cast<std::size_t>(spent)];
}

/// The wall time of a job so far, split by use. Each moment is counted once.
struct Account {
  std::array<Millis, kSpentKinds> spent{};
  [[nodiscard]] Millis& operator[](Spent on) { return spent[static_cast<std::size_t>(on)]; }
  [[nodiscard]] Millis operator[](Spent on) const { return spent[static_cast<std::size_t>(on)]; }
  [[nodiscard]] Millis total() const { return std::accumulate(spent.begin(), spent.end(), Millis{0}); }
  bool operator==(Account const&) const = default;
};

/// One generation whose workers have run.
struct PastGeneration {
  std::uint64_t number = 0;
  std::uint32_t nodes = 0;
  std::uint32_t ranks = 0;
  bool failed = false;  ///< the time after it counts as lost until the next generation trains
  Millis began{0};      ///< when its workers started, since the job's start
  Millis ran{0};        ///< until the first trouble, or the end
  Millis lost{0};       ///< to its failure, so far
  std::string why;      ///< why it ended, in one line
  bool operator==(PastGeneration const&) const = default;
};

struct History {
  Account account;
  std::vector<PastGeneration> past;  ///< in order; in a decree only the newest
  std::uint32_t left_out = 0;        ///< number of generations before `past`
  std::uint32_t ranks = 0;           ///< of the newest generation that was formed
  bool steps = false;                ///< the program reports completed training steps
  bool operator==(History const&) const = default;
};

/// Limits of a History in a decree.
inline constexpr std::size_t kPastOfDecree = 3;
inline constexpr std::size_t kWhyOfDecree = 80;
/// Limit of `past` in a coordinator and in a verdict.
inline constexpr std::size_t kPastKept = 1000;

/// Consecutive failures. What follows from them: rendezvous/history/restarts.hpp.
struct Streak {
  std::uint32_t failures = 0;  ///< since the newest generation that lived, its own failure included
  std::uint32_t alike = 0;     ///< the newest of them: of generations that died young from failures that look the same
  std::uint64_t look = 0;      ///< digest of the last failure
  bool operator==(Streak const&) const = default;
};

/// A failure caused by the node itself, not by the program.
struct NodeFault {
  std::string host;
  std::string what;        ///< "rank 3: signal 7 (SIGBUS)"
  std::uint64_t look = 0;  ///< digest, equal for failures that look the same; 0: unlike any other
  std::string key{};       ///< of the node in this run; "" = from an earlier run: any node on that host
  bool operator==(NodeFault const&) const = default;
};
/// With this many faults a node is excluded, or is to be left out of the next job.
inline constexpr std::size_t kFaultsEnough = 2;
/// Limit of the faults in a decree.
inline constexpr std::size_t kFaultsOfDecree = 8;

}  // namespace cxxrun::rendezvous
