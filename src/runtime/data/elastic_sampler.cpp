#include "cxxrun/elastic_sampler.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>

#include "cxxrun/failure.hpp"

namespace cxxrun {
namespace {

__extension__ using Wide = unsigned __int128;

// A keyed permutation of 0 … size-1 for any size: a Feistel network over the bits of the index, repeated until the
// result is in range. It gives the same numbers on every machine. A test pins them: a change here would change the
// order of epochs in progress.

using Keys = ElasticSampler::Keys;
constexpr std::size_t kRounds = std::tuple_size_v<Keys>;
static_assert(kRounds % 2 == 0, "so that the halves end with the widths they began with");

/// A network over fewer bits reaches only some of the permutations; more bits only mean more repetitions.
constexpr unsigned kFewestBits = 6;

/// The finalizer of splitmix64: every bit of the result depends on every bit of `x`.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// The round keys. Seed and epoch are mixed one after the other, so that (seed 1, epoch 2) differs from (2, 1).
constexpr Keys keys_of(std::uint64_t seed, std::uint64_t epoch) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;
  Keys keys{};
  std::uint64_t const base = mix(mix(seed + kGolden) + epoch * kGolden + 1);
  for (std::size_t i = 0; i < kRounds; ++i) {
    keys[i] = mix(base + (i + 1) * kGolden);
  }
  return keys;
}

/// Requires `position` < `size`. The network spans less than twice the size, so the loop runs less than twice on
/// average (up to 32 times for the smallest sizes).
constexpr std::uint64_t permute(Keys const& keys, std::uint64_t size, std::uint64_t position) {
  if (size < 2) {
    return position;
  }
  auto const bits = std::max(kFewestBits, static_cast<unsigned>(std::bit_width(size - 1)));
  unsigned const low = bits / 2;  // at most 32: no shift below reaches 64
  unsigned const high = bits - low;
  std::uint64_t const low_mask = (std::uint64_t{1} << low) - 1;
  std::uint64_t const high_mask = (std::uint64_t{1} << high) - 1;
  std::uint64_t x = position;
  do {
    std::uint64_t a = x >> low;
    std::uint64_t b = x & low_mask;
    for (std::size_t i = 0; i < kRounds; i += 2) {
      std::uint64_t const from_b = (b ^ keys[i]) * 0x9fb21c651e98df25U;
      a ^= ((from_b ^ (from_b >> 32U)) * 0xd6e8feb86659fd93U >> 32U) & high_mask;
      std::uint64_t const from_a = (a ^ keys[i + 1]) * 0x9fb21c651e98df25U;
      b ^= ((from_a ^ (from_a >> 32U)) * 0xd6e8feb86659fd93U >> 32U) & low_mask;
    }
    x = (a << low) | b;
  } while (x >= size);
  return x;
}

[[noreturn]] void refuse(std::string const& why) {
  throw Failure(fail(Errc::usage, "ElasticSampler: " + why));
}

}  // namespace

ElasticSampler::ElasticSampler(std::uint64_t size, std::uint64_t seed, Tail tail)
    : size_(size), state_{seed, 0, 0}, keys_(keys_of(seed, 0)), tail_(tail) {}

std::uint64_t ElasticSampler::at(std::uint64_t position) const {
  if (position >= size_) {  // from outside, the loop in permute() might never end
    refuse("position " + std::to_string(position) + " of an epoch of " + std::to_string(size_) + " samples");
  }
  return permute(keys_, size_, position);
}

std::vector<std::uint64_t> ElasticSampler::next(int rank, int world, std::size_t per_rank) {
  if (world < 1 || rank < 0 || rank >= world || per_rank == 0) {
    refuse("rank " + std::to_string(rank) + " of " + std::to_string(world) + " takes " + std::to_string(per_rank) +
           ": ranks are 0 to world - 1, and take at least 1 sample");
  }
  auto const ranks = static_cast<std::uint64_t>(world);
  auto const mine = static_cast<std::uint64_t>(rank);
  std::uint64_t const begin = state_.consumed;
  std::uint64_t const left = size_ - begin;
  bool const whole = left / ranks >= per_rank;  // world * per_rank may exceed 64 bits
  std::uint64_t first = begin + (whole ? mine * per_rank : 0);
  std::uint64_t count = per_rank;
  if (whole) {
    state_.consumed += ranks * per_rank;
  } else {
    state_.consumed = size_;
    if (tail_ == Tail::drop || left == 0) {
      count = 0;
    } else if (tail_ == Tail::uneven) {
      first = begin + mine * (left / ranks) + std::min(mine, left % ranks);
      count = left / ranks + (mine < left % ranks ? 1 : 0);
    } else {
      auto const wide = (static_cast<Wide>(mine) * per_rank + begin) % size_;
      first = static_cast<std::uint64_t>(wide);
    }
  }
  if (tail_ == Tail::drop && (size_ - state_.consumed) / ranks < per_rank) {
    state_.consumed = size_;
  }
  std::vector<std::uint64_t> samples;
  samples.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0, position = first; i < count; ++i, ++position) {
    position = position == size_ ? 0 : position;
    samples.push_back(permute(keys_, size_, position));
  }
  return samples;
}

std::vector<std::uint64_t> ElasticSampler::next_shared(int rank, int world, std::size_t total) {
  if (world < 1 || rank < 0 || rank >= world || total < static_cast<std::size_t>(world)) {
    refuse("rank " + std::to_string(rank) + " of " + std::to_string(world) + " has a share of " +
           std::to_string(total) + ": ranks are 0 to world - 1, and each takes at least 1 sample");
  }
  auto const all = next(0, 1, total);
  auto const from = [&](std::size_t share) {
    return all.begin() + static_cast<std::ptrdiff_t>(all.size() * share / static_cast<std::size_t>(world));
  };
  return {from(static_cast<std::size_t>(rank)), from(static_cast<std::size_t>(rank) + 1)};
}

bool ElasticSampler::done() const {
  return state_.consumed == size_;
}

void ElasticSampler::next_epoch() {
  ++state_.epoch;
  state_.consumed = 0;
  keys_ = keys_of(state_.seed, state_.epoch);
}

void ElasticSampler::restore(State const& state) {
  if (state.consumed > size_) {
    refuse("the state has consumed " + std::to_string(state.consumed) + " of " + std::to_string(size_) +
           " samples: it was saved with another data set");
  }
  state_ = state;
  keys_ = keys_of(state_.seed, state_.epoch);
}

}  // namespace cxxrun
