// Ranks that train together in a test: they meet, and fill gradients whose mean has a closed form.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"
#include "tests/support/forked_store.hpp"
#include "tests/support/ranks.hpp"

namespace cxxrun::test {

struct SyncWorld {
  int ranks = 1;
  std::string nodes{};  ///< "aab": ranks 0 and 1 share memory, rank 2 does not; empty: all do
  ForkedStore store{};
  mutable std::uint64_t runs = 0;

  /// In the child that is `rank`.
  [[nodiscard]] Communicator join(int rank) const {
    WorkerEnv env;
    env.rank = env.local_rank = rank;
    env.world_size = env.local_world_size = ranks;
    env.generation = runs;
    env.store = store.address();
    if (!nodes.empty()) {
      setenv("CXXRUN_HOST_ID", nodes.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
    }
    return Communicator::init(env, {.op_timeout = std::chrono::seconds(60), .init_timeout = std::chrono::seconds(60)});
  }

  /// What every rank's body returned when it is the same text on all of them, else all of them.
  [[nodiscard]] std::string run(std::function<std::string(int rank)> const& body,
                                std::function<void(std::vector<pid_t> const&)> const& meanwhile = {}) const {
    ++runs;
    auto const ends = run_ranks(ranks, body, meanwhile);
    std::string all;
    bool same = true;
    for (auto const& end : ends) {
      all += "[" + end.said + (end.returned() ? "] " : "]: status " + std::to_string(end.status) + " ");
      same = same && end.returned() && end.said == ends.front().said;
    }
    return same ? ends.front().said : all;
  }
};

/// f32 parameters of all sizes from nothing to several buckets of `kSmallBuckets`.
inline std::vector<Parameter> mixed_parameters(DType type = DType::f32) {
  std::vector<Parameter> parameters;
  for (std::size_t const count : {1, 33, 0, 1000, 5000, 7, 64, 300, 2049, 31}) {
    parameters.push_back({"p" + std::to_string(parameters.size()), count, type});
  }
  return parameters;
}
inline GradientSynchronizer::Options small_buckets() {
  return {.first_bucket_bytes = 2048, .bucket_bytes = 8192};
}

/// A small whole number; the mean over ranks of `factor(rank) * base_value` is whole too if that of the factors is.
inline int base_value(std::size_t step, std::size_t parameter, std::size_t element) {
  return static_cast<int>((step + 3 * parameter + element) % 5) + 1;
}

template <class T>
void fill(GradientSynchronizer& sync, std::size_t step, std::size_t parameter, int factor) {
  auto const gradient = sync.gradient<T>(parameter);
  for (std::size_t k = 0; k < gradient.size(); ++k) {
    gradient[k] = T(static_cast<float>(factor * base_value(step, parameter, k)));
  }
}

/// "" when every element of the gradient is `factor * base_value`.
template <class T>
std::string wrong(GradientSynchronizer& sync, std::size_t step, std::size_t parameter, int factor) {
  auto const gradient = sync.gradient<T>(parameter);
  for (std::size_t k = 0; k < gradient.size(); ++k) {
    auto const expected = static_cast<float>(factor * base_value(step, parameter, k));
    if (static_cast<float>(gradient[k]) != expected) {
      return "step " + std::to_string(step) + " parameter " + std::to_string(parameter) + " element " +
             std::to_string(k) + " is " + std::to_string(static_cast<float>(gradient[k])) + ", not " +
             std::to_string(expected);
    }
  }
  return "";
}

template <class T>
std::string wrong(GradientSynchronizer& sync, std::size_t step, int factor) {
  std::string first;
  for (std::size_t i = 0; i < sync.size() && first.empty(); ++i) {
    first = wrong<T>(sync, step, i, factor);
  }
  return first;
}

/// Fills and marks everything in this order. The mean over ranks has the factor (world + 1).
template <class T>
void backward(GradientSynchronizer& sync, std::size_t step, int rank, std::vector<std::uint32_t> const& order) {
  for (auto const i : order) {
    fill<T>(sync, step, i, 2 * (rank + 1));
    sync.mark_ready(i);
  }
}

inline std::vector<std::uint32_t> shuffled(std::size_t number, unsigned seed) {
  std::vector<std::uint32_t> order(number);
  for (std::uint32_t i = 0; i < number; ++i) {
    order[i] = i;
  }
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

}  // namespace cxxrun::test
