// ElasticSampler: decides which samples a rank takes next. Every sample is used once per epoch, whatever the world
// size.
//
// An epoch visits 0 … size-1 in a pseudo-random order that depends only on the seed and the epoch. Ranks take
// consecutive positions of that order, so the state of all ranks is one number: how many positions are consumed. From a
// checkpoint it continues in the middle of an epoch with any number of ranks. It keeps no table: the order is a keyed
// permutation (a Feistel network over the index bits, repeated until the result is in range).
//
//   for (; !sampler.done(); …) { auto batch = sampler.next(rank, world, 32); … }
//   sampler.next_epoch();
//
// End the loop at done(), which is the same on every rank, and not at an empty batch: in the last step of an uneven
// epoch some ranks may have no samples while others do; they take part in the step's collectives with weight 0.
// docs/use/sampler.md describes resuming.
//
// Pure and deterministic on every machine. Threads: one at a time.
#pragma once

#include "cxxrun/version.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cxxrun {

/// A small value; see the top of this file.
class ElasticSampler {
 public:
  /// What to do in the last step of an epoch, when fewer than world * per_rank positions are left.
  enum class Tail : std::uint8_t {
    uneven,  ///< share them as evenly as possible: some ranks get one more, some perhaps none (set_weight)
    drop,    ///< leave them out of this epoch
    pad,     ///< fill up with positions from the start of the epoch: those samples are seen twice
  };

  /// Everything to save; trivially copyable.
  struct State {
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    std::uint64_t consumed = 0;  ///< positions of this epoch handed out or dropped, over all ranks
    bool operator==(State const&) const = default;
  };

  /// `size` samples; with 0 every epoch is empty.
  ElasticSampler(std::uint64_t size, std::uint64_t seed, Tail tail = Tail::uneven);

  /// The sample at a position of the current epoch. Failure (usage) unless position < size().
  [[nodiscard]] std::uint64_t at(std::uint64_t position) const;

  /// The samples of one rank in the next step, at most `per_rank`; advances by a whole step of all ranks. Every rank
  /// calls it once per step with the same `world` and `per_rank`. After the end of the epoch the result is empty on
  /// every rank. Before that it can be empty with Tail::uneven in the last step, on the highest ranks only, and with
  /// Tail::drop on every rank, if fewer samples than one whole step are left from the start. Failure (usage): world <
  /// 1, rank not in it, per_rank 0.
  [[nodiscard]] std::vector<std::uint64_t> next(int rank, int world, std::size_t per_rank);

  /// The same for a step of `total` samples independent of the number of ranks: shared as evenly as possible, so one
  /// rank may have one more than another (set_weight). Failure (usage): as above, and total < world.
  [[nodiscard]] std::vector<std::uint64_t> next_shared(int rank, int world, std::size_t total);

  /// Whether the epoch is over; with Tail::drop also if less than another step of the last size is left.
  [[nodiscard]] bool done() const;
  /// Starts the next epoch.
  void next_epoch();

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] State const& state() const { return state_; }
  /// Continues from `state`, including its seed. Failure (usage): consumed is more than size.
  void restore(State const& state);

  using Keys = std::array<std::uint64_t, 6>;

 private:
  std::uint64_t size_;
  State state_;
  Keys keys_;  ///< of the current epoch's order
  Tail tail_;
};

}  // namespace cxxrun
