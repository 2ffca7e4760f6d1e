// ElasticSampler: which samples a rank takes next; every sample once per epoch, whatever happens to the world size.
//
// Each epoch visits 0 … size-1 in a pseudo-random order that depends on the seed and the epoch only. Ranks take
// consecutive positions of that order, so the state of all of them is one number: how many positions are consumed.
// Saved in a checkpoint, it goes on mid-epoch with any other number of ranks. Nothing of size n is kept: the order is
// a keyed permutation (a Feistel network over the index bits, walked until it falls into the range).
//
//   for (auto batch = sampler.next(rank, world, 32); !batch.empty(); batch = sampler.next(rank, world, 32)) …
//   sampler.next_epoch();
//
// Pure and deterministic on every machine. Thread-safety: one thread at a time.
#pragma once

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
    std::uint64_t consumed = 0;  ///< positions of this epoch handed out, over all ranks
    bool operator==(State const&) const = default;
  };

  /// `size` samples; 0 is an empty epoch.
  ElasticSampler(std::uint64_t size, std::uint64_t seed, Tail tail = Tail::uneven);

  /// The sample at a position of the current epoch; position < size().
  [[nodiscard]] std::uint64_t at(std::uint64_t position) const;

  /// The samples of one rank in the next step, at most `per_rank`, and moves on by a whole step of all ranks. Every
  /// rank calls it once per step with the same `world` and `per_rank`. At the end of the epoch it is empty on every
  /// rank; with Tail::uneven it can be empty earlier only on some: see done().
  /// Failure (usage): world < 1, rank not in it, per_rank 0.
  [[nodiscard]] std::vector<std::uint64_t> next(int rank, int world, std::size_t per_rank);

  [[nodiscard]] bool done() const;  ///< nothing of this epoch is left (with Tail::drop: no whole step may be left)
  void next_epoch();

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] State const& state() const { return state_; }
  /// Failure (usage): consumed is more than size.
  void restore(State const& state);

 private:
  std::uint64_t size_;
  State state_;
  Tail tail_;
};

}  // namespace cxxrun
