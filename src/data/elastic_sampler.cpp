#include "cxxrun/elastic_sampler.hpp"

#include <algorithm>
#include <string>
#include <tuple>

#include "cxxrun/failure.hpp"
#include "src/data/feistel.hpp"

namespace cxxrun {
namespace {

__extension__ using Wide = unsigned __int128;
static_assert(std::tuple_size_v<data::Keys> == std::tuple_size_v<ElasticSampler::Keys>);

[[noreturn]] void refuse(std::string const& why) {
  throw Failure(fail(Errc::usage, "ElasticSampler: " + why));
}

}  // namespace

ElasticSampler::ElasticSampler(std::uint64_t size, std::uint64_t seed, Tail tail)
    : size_(size), state_{seed, 0, 0}, keys_(data::keys_of(seed, 0)), tail_(tail) {}

std::uint64_t ElasticSampler::at(std::uint64_t position) const {
  if (position >= size_) {  // a walk from outside might never come back in
    refuse("position " + std::to_string(position) + " of an epoch of " + std::to_string(size_) + " samples");
  }
  return data::permute(keys_, size_, position);
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
  bool const whole = left / ranks >= per_rank;  // world * per_rank may be more than 64 bits hold
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
    samples.push_back(data::permute(keys_, size_, position));
  }
  return samples;
}

bool ElasticSampler::done() const {
  return state_.consumed == size_;
}

void ElasticSampler::next_epoch() {
  ++state_.epoch;
  state_.consumed = 0;
  keys_ = data::keys_of(state_.seed, state_.epoch);
}

void ElasticSampler::restore(State const& state) {
  if (state.consumed > size_) {
    refuse("the state has consumed " + std::to_string(state.consumed) + " of " + std::to_string(size_) +
           " samples: it was saved with another data set");
  }
  state_ = state;
  keys_ = data::keys_of(state_.seed, state_.epoch);
}

}  // namespace cxxrun
