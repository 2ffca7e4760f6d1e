// ElasticSampler: which samples a rank takes next; every sample once per epoch, whatever happens to the world size.
//
// Each epoch visits 0 … size-1 in a pseudo-random order that depends on the seed and the epoch only. Ranks take
// consecutive positions of that order, so the state of all of them is one number: how many positions are consumed.
// Saved in a checkpoint, it goes on mid-epoch with any other number of ranks. Nothing of size n is kept: the order is
// a keyed permutation (a Feistel network over the index bits, walked until it falls into the range).
//
//   for (; !sampler.done(); …) { auto batch = sampler.next(rank, world, 32); … }
//   sampler.next_epoch();
//
// The loop ends at done(), which is the same on every rank, and not at an empty batch: in the last step of an uneven
// epoch some ranks may have none while others do, and take part in the step's collectives with weight 0.
// docs/use/sampler.md tells how to resume.
//
// Pure and deterministic on every machine. Thread-safety: one thread at a time.
#pragma once

#include "cxxrun/version.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cxxrun {

class ElasticSampler {
 public:
  /// What happens to the last step of an epoch, when fewer than world * per_rank positions are left.
  enum class Tail : std::uint8_t {
    uneven,  ///< they are shared out as evenly as possible: some ranks get one more, some perhaps none (set_weight)
    drop,    ///< they are left out of this epoch
    pad,     ///< filled up with positions from the start of the epoch: those samples are seen twice
  };

  /// All there is to save; a trivially copyable value.
  struct State {
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
    std::uint64_t consumed = 0;  ///< positions of this epoch handed out (or dropped), over all ranks
    bool operator==(State const&) const = default;
  };

  /// `size` samples; 0 is an empty epoch.
  ElasticSampler(std::uint64_t size, std::uint64_t seed, Tail tail = Tail::uneven);

  /// The sample at a position of the current epoch. Failure (usage) unless position < size().
  [[nodiscard]] std::uint64_t at(std::uint64_t position) const;

  /// The samples of one rank in the next step, at most `per_rank`, and moves on by a whole step of all ranks. Every
  /// rank calls it once per step with the same `world` and `per_rank`. After the end of the epoch it is empty on every
  /// rank. Before, it can be empty with Tail::uneven in the last step, on the highest ranks only; and with Tail::drop
  /// on every rank, when the epoch begins (or goes on) with less than one whole step.
  /// Failure (usage): world < 1, rank not in it, per_rank 0.
  [[nodiscard]] std::vector<std::uint64_t> next(int rank, int world, std::size_t per_rank);

  /// The same for a step of `total` samples, however many ranks there are: shared out as evenly as possible, so that a
  /// rank may have one more than another (set_weight). Failure (usage): as above, and total < world.
  [[nodiscard]] std::vector<std::uint64_t> next_shared(int rank, int world, std::size_t total);

  /// Nothing of this epoch is left; with Tail::drop already when less than another step of the last size is.
  [[nodiscard]] bool done() const;
  void next_epoch();

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] State const& state() const { return state_; }
  /// Goes on from there, with the state's seed. Failure (usage): consumed is more than size.
  void restore(State const& state);

  using Keys = std::array<std::uint64_t, 6>;

 private:
  std::uint64_t size_;
  State state_;
  Keys keys_;  ///< of this epoch's order
  Tail tail_;
};

}  // namespace cxxrun
