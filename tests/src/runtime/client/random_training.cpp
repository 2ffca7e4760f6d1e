// The part of RandomWorld that uses a GradientSynchronizer.
#include <algorithm>
#include <cmath>

#include "tests/src/runtime/client/random_world.hpp"
#include "tests/src/runtime/client/small_numbers.hpp"

namespace cxxrun::test {

/// These determine what every rank of a group does in each step.
struct RandomWorld::Training {
  std::uint64_t salt = 0;
  std::vector<int> group{};
  std::vector<Parameter> parameters{};
  GradientSynchronizer::Options options{};

  [[nodiscard]] std::uint64_t pick(std::uint64_t what, std::uint64_t step, int rank, std::uint64_t i = 0) const {
    return mixed(salt + what, step, rank, i);
  }
  [[nodiscard]] bool weighted(std::uint64_t step) const { return pick(1, step, 0) % 3 == 0; }
  [[nodiscard]] double weight(std::uint64_t step, int rank) const {
    auto const drawn = static_cast<double>(pick(2, step, rank) % 5);
    return !weighted(step) ? 1 : rank == group[step % group.size()] ? drawn + 1 : drawn;
  }
  /// A micro-batch inside no_sync() precedes the step.
  [[nodiscard]] bool twice(std::uint64_t step) const { return pick(3, step, 0) % 3 == 0; }
  [[nodiscard]] bool marks(std::uint64_t step, int rank, std::uint64_t i) const {
    return options.find_unused ? pick(4, step, rank, i) % 3 != 0 : weight(step, rank) > 0;
  }
  [[nodiscard]] bool touches(std::uint64_t step, int rank, std::uint64_t i) const {
    return twice(step) && pick(5, step, rank, i) % 2 == 0;
  }
  [[nodiscard]] double gradient(std::uint64_t step, int rank, std::uint64_t i, std::size_t at) const {
    return small(pick(6, step, 0, i), rank, at);
  }
  /// The expected result of the rank.
  [[nodiscard]] double part(std::uint64_t step, int rank, std::uint64_t i, std::size_t at) const {
    bool const counts = options.find_unused && touches(step, rank, i);
    double const times = marks(step, rank, i) ? (twice(step) ? 2 : 1) : counts ? 1 : 0;
    return weight(step, rank) * times * gradient(step, rank, i, at);
  }
};

void RandomWorld::train() {
  Slot& slot = slots_[common_.below(slots_.size())];
  Training training{.salt = common_.next(), .group = slot.mine};
  auto const parameters = 1 + common_.below(7);
  for (std::uint64_t i = 0; i < parameters; ++i) {
    auto const type = static_cast<DType>(common_.below(common_.one_in(2) ? 4 : 1));
    training.parameters.push_back({"p" + std::to_string(i), common_.below(common_.one_in(3) ? 4000 : 90), type});
  }
  training.options = {.first_bucket_bytes = 1 + common_.below(3000),
                      .bucket_bytes = 1 + common_.below(9000),
                      .wire = static_cast<Wire>(common_.below(3)),
                      .average = common_.one_in(2),
                      .find_unused = common_.one_in(2),
                      .rebuild_order = common_.one_in(2)};
  auto const steps = 1 + common_.below(4);
  if (!slot.comm) {
    return;
  }
  GradientSynchronizer sync(*slot.comm, training.parameters, training.options);
  for (std::uint64_t number = 0; number < steps; ++number) {
    step(sync, training, number);
  }
}

void RandomWorld::step(GradientSynchronizer& sync, Training const& training, std::uint64_t number) {
  auto const write = [&](std::uint64_t i, double times) {
    for (std::size_t at = 0; at < sync.count(i); ++at) {
      set_number(training.parameters[i].type, sync.gradient_data(i), at,
                 times * training.gradient(number, rank_, i, at));
    }
  };
  if (training.weighted(number)) {
    sync.set_weight(training.weight(number, rank_));
  }
  if (training.twice(number)) {
    auto const local = sync.no_sync();
    for (std::uint64_t i = 0; i < sync.size(); ++i) {
      write(i, 1);
      if (training.touches(number, rank_, i)) {
        sync.mark_ready(i);
      }
    }
    sync.wait();
  }
  std::vector<std::uint64_t> order(sync.size());
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    std::swap(order[i] = i, order[own_.below(i + 1)]);
  }
  for (auto const i : order) {
    if (training.marks(number, rank_, i)) {
      write(i, training.twice(number) ? 2 : 1);
      sync.mark_ready(i);
    } else if (!training.touches(number, rank_, i)) {
      write(i, 100);  // must not be counted
    }
  }
  sync.wait();
  check_step(sync, training, number);
}

void RandomWorld::check_step(GradientSynchronizer& sync, Training const& training, std::uint64_t number) {
  auto const& group = training.group;
  double weights = 0;
  for (int const rank : group) {
    weights += training.weight(number, rank);
  }
  bool const power = (group.size() & (group.size() - 1)) == 0;
  bool const exact = !training.options.average || (!training.weighted(number) && power);
  double squares = 0;
  for (std::uint64_t i = 0; i < sync.size(); ++i) {
    auto const type = training.parameters[i].type;
    auto const wire = type == DType::f32 ? training.options.wire : Wire::same;
    bool const bf16 = type == DType::bf16 || wire == Wire::bf16;
    double const places = bf16 ? 1 / 128.0 : type == DType::f16 || wire == Wire::f16 ? 1 / 1024.0 : 5e-7;
    bool used = !training.options.find_unused;
    for (int const rank : group) {
      used = used || training.marks(number, rank, i) || training.touches(number, rank, i);
    }
    for (std::size_t at = 0; at < sync.count(i); ++at) {
      double sum = 0;
      for (int const rank : group) {
        sum += training.part(number, rank, i, at);
      }
      double const there = number_at(type, sync.gradient_data(i), at);
      squares += there * there;
      double const off = std::abs(there * sync.scale() - sum / weights);
      require(off <= (exact ? 1e-12 : places) * sum / weights,
              "step " + std::to_string(number) + ", gradient " + std::to_string(i) + " (" + std::string(name_of(type)) +
                  ") at " + std::to_string(at) + " is " + std::to_string(there) + " times " +
                  std::to_string(sync.scale()) + ", not " + std::to_string(sum / weights));
    }
    require(sync.used(i) == used, "whether gradient " + std::to_string(i) + " is used");
  }
  require(std::abs(sync.gradient_norm() - std::sqrt(squares)) <= 1e-9 * std::sqrt(squares), "a norm");
  ++looked_;
}

}  // namespace cxxrun::test
