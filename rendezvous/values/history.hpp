// History: where the hours of a job went, and what became of its generations. Part of every decree, in short, so that
// whoever is elected goes on with it. Durations only: no clock's instant means anything on another host. How it is
// kept: membership/ledger.hpp; what it says to people: docs/use/verdict.md.
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
  startup,     ///< from a generation that is formed to its first training step
  training,    ///< from there to the newest step, or to the end where it did not fail; but for
  checkpoint,  ///< what checkpoints have held it up meanwhile, as far as that is told
  lost,        ///< from the newest step of a generation that failed until the next one trains
  stopping,    ///< without a failure: until all workers have ended
};
inline constexpr std::size_t kSpentKinds = 6;

[[nodiscard]] constexpr char const* name_of(Spent spent) {
  constexpr std::array<char const*, kSpentKinds> kNames{"waiting",    "startup", "training",
                                                        "checkpoint", "lost",    "stopping"};
  return kNames[static_cast<std::size_t>(spent)];
}

/// The wall time of a job so far: each moment of it is in one of these.
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
  bool failed = false;  ///< what follows is lost, until the next one trains
  Millis began{0};      ///< its workers, since the job's start
  Millis ran{0};        ///< until the first trouble, or the end
  Millis lost{0};       ///< to its failure, so far
  std::string why;      ///< what ended it, in one line
  bool operator==(PastGeneration const&) const = default;
};

struct History {
  Account account;
  std::vector<PastGeneration> past;  ///< in their order; of a decree the newest only
  std::uint32_t left_out = 0;        ///< so many came before those
  std::uint32_t ranks = 0;           ///< of the newest generation that was formed
  bool steps = false;                ///< its program says when it has completed a training step
  bool operator==(History const&) const = default;
};

/// What a decree has room for.
inline constexpr std::size_t kPastOfDecree = 3;
inline constexpr std::size_t kWhyOfDecree = 80;
/// What a coordinator keeps, and a verdict has.
inline constexpr std::size_t kPastKept = 1000;

}  // namespace cxxrun::rendezvous
