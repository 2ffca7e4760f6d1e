// Tensor x data parallelism on a grid of 2 x 2 ranks, with groups of a Communicator. It survives the loss of ranks.
//
//   cxxrun --nproc-per-node 4 build/release/bin/examples/grid [STEPS] [f16]   (or any launcher that sets RANK, …)
//
// Ranks 0 and 1 hold half of the hidden units each and see the same samples; so do ranks 2 and 3, with other samples.
// Forward adds the halves' outputs in the tensor group, and gradients are added in the data group: ranks 0 and 2, 1
// and 3. Each rank calls its groups in this order in every step, so nobody waits for ever.
//
// When a rank dies under cxxrun, the others keep their processes: run_elastic() calls attach() for the next world, in
// which the groups are made anew, and share(), in which the new rank gets its half from its peer in the data group. As
// a half may be done with a step that the other half has not done, each rank can take its last step back.
//
// At the end each rank trains once more with data parallelism alone, both halves and both replicas in its own process,
// and compares: the same bits, because both add two halves and then two gradients, and a + b is b + a. With more than
// two in a group the order of adding could differ, and the results would agree within rounding. With f16 what is added
// is rounded to 16 bits first, and so is each sum.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cxxrun/elastic.hpp"

namespace {

constexpr std::size_t kIn = 6;
constexpr std::size_t kHalf = 8;  // hidden units of one rank
constexpr std::size_t kOut = 3;
constexpr std::size_t kSamples = 5;
constexpr int kSteps = 50;
constexpr std::uint64_t kTold = 100;  // steps from one line to the next
constexpr float kRate = 0.01F;

using Values = std::vector<float>;

/// Half of a network y = B A x: rows of A and columns of B, one after the other, and the gradients of both.
struct Half {
  explicit Half(int number) : which(number) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] =
          0.3F * static_cast<float>(std::sin(static_cast<double>(i + 1000 * static_cast<std::size_t>(which))));
    }
  }
  float& a(Values& of, std::size_t unit, std::size_t in) { return of[unit * kIn + in]; }
  float& b(Values& of, std::size_t out, std::size_t unit) { return of[kHalf * kIn + out * kHalf + unit]; }

  /// What this half adds to the outputs for all samples.
  Values forward(Values const& x) {
    Values y(kSamples * kOut);
    for (std::size_t s = 0; s < kSamples; ++s) {
      for (std::size_t j = 0; j < kHalf; ++j) {
        float& h = hidden[s * kHalf + j] = 0;
        for (std::size_t i = 0; i < kIn; ++i) {
          h += a(parameters, j, i) * x[s * kIn + i];
        }
        for (std::size_t o = 0; o < kOut; ++o) {
          y[s * kOut + o] += b(parameters, o, j) * h;
        }
      }
    }
    return y;
  }
  void backward(Values const& x, Values const& error) {
    gradients.assign(gradients.size(), 0);
    for (std::size_t s = 0; s < kSamples; ++s) {
      for (std::size_t j = 0; j < kHalf; ++j) {
        float back = 0;
        for (std::size_t o = 0; o < kOut; ++o) {
          back += b(parameters, o, j) * error[s * kOut + o];
          b(gradients, o, j) += error[s * kOut + o] * hidden[s * kHalf + j];
        }
        for (std::size_t i = 0; i < kIn; ++i) {
          a(gradients, j, i) += back * x[s * kIn + i];
        }
      }
    }
  }
  void update() {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] -= kRate * gradients[i];
    }
  }

  int which;
  Values parameters = Values(kHalf * (kIn + kOut));
  Values gradients = Values(parameters.size());
  Values hidden = Values(kSamples * kHalf);
};

/// The samples of one row of the grid in one step.
Values samples_of(int row, std::uint64_t step) {
  Values x(kSamples * kIn);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(std::cos(static_cast<double>(i) * 1.7 + row * 31 + static_cast<double>(step) * 7));
  }
  return x;
}

void add(Values& to, Values const& values, bool f16) {
  auto const rounded = [f16](float value) { return f16 ? static_cast<float>(cxxrun::float16(value)) : value; };
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = rounded(rounded(to[i]) + rounded(values[i]));
  }
}

/// The same over the ranks of a group.
void add_up(cxxrun::Communicator& group, Values& values, bool f16) {
  if (!f16) {
    group.all_reduce(std::span(values));
    return;
  }
  std::vector<cxxrun::float16> halves(values.begin(), values.end());
  group.all_reduce(std::span(halves));
  values = Values(halves.begin(), halves.end());
}

/// The outputs become what is wrong with them: they should be the first inputs.
void compare(Values& y, Values const& x) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] -= x[i / kOut * kIn + i % kOut];
  }
}

class Grid : public cxxrun::ElasticTask {
 public:
  Grid(std::uint64_t steps, bool f16) : steps_(steps), f16_(f16) {}

  [[nodiscard]] std::uint64_t completed() const override { return completed_; }
  [[nodiscard]] Half const& half() const { return *half_; }

  void attach(cxxrun::Communicator& comm) override {
    if (comm.world_size() != 4) {
      throw cxxrun::Failure({cxxrun::Errc::usage, "grid: needs 4 ranks, for 2 x 2; there are " +
                                                      std::to_string(comm.world_size()) + ": say --nproc-per-node 4"});
    }
    tensor_ = comm.split(comm.rank() / 2);
    data_ = comm.split(comm.rank() % 2);
    if (!half_ || half_->which != tensor_->rank()) {
      half_.emplace(tensor_->rank());
      completed_ = 0;
      fresh_ = true;
    }
    // A half is done with a step when both of its ranks are in the data group, whatever becomes of the other half.
    for (auto const& rank : comm.all_gather_value(cxxrun::Standing{completed_, fresh_})) {
      if (!fresh_ && !rank.fresh && rank.completed + 1 == completed_) {
        half_->parameters = before_;
        completed_ = rank.completed;
      }
    }
  }

  /// `donor` has the wrong half for every second rank: each gets its own from its data group.
  void share(cxxrun::Communicator& comm, int /*donor*/) override {
    auto const ranks = comm.all_gather_value(cxxrun::Standing{completed_, fresh_});
    std::uint64_t completed = 0;
    for (auto const& rank : ranks) {
      completed = std::max(completed, rank.completed);
    }
    auto const has_it = [&](std::size_t rank) { return !ranks[rank].fresh && ranks[rank].completed == completed; };
    if ((has_it(0) || has_it(2)) && (has_it(1) || has_it(3))) {
      data_->broadcast(std::span(half_->parameters), has_it(static_cast<std::size_t>(tensor_->rank())) ? 0 : 1);
      completed_ = completed;
    } else {  // nobody has one of the halves any more: from the beginning; a real trainer loads a checkpoint
      half_.emplace(tensor_->rank());
      completed_ = 0;
    }
    fresh_ = false;
  }

  [[nodiscard]] bool step(cxxrun::Communicator& comm) override {
    if (completed_ == steps_) {
      return false;
    }
    auto const x = samples_of(data_->rank(), completed_);
    auto y = half_->forward(x);
    add_up(*tensor_, y, f16_);
    compare(y, x);
    half_->backward(x, y);
    add_up(*data_, half_->gradients, f16_);
    before_ = half_->parameters;
    half_->update();
    if (++completed_ % kTold == 0 && comm.rank() == 0) {
      std::printf("step %llu of generation %llu\n", static_cast<unsigned long long>(completed_),
                  static_cast<unsigned long long>(comm.generation()));
      std::fflush(stdout);
    }
    return true;
  }

 private:
  std::uint64_t steps_;
  bool f16_;
  std::uint64_t completed_ = 0;
  bool fresh_ = true;  // nothing of the training is in this process yet
  std::optional<cxxrun::Communicator> tensor_;
  std::optional<cxxrun::Communicator> data_;
  std::optional<Half> half_;
  Values before_;  // parameters before the last step
};

/// What data parallelism ends with: two replicas of both halves, each with its samples, whose gradients are added.
Values train_data_parallel(int wanted, std::uint64_t steps, bool f16) {
  std::array<Half, 2> halves{Half(0), Half(1)};
  std::array<Values, 2> first;
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (int row : {0, 1}) {
      auto const x = samples_of(row, step);
      auto y = halves[0].forward(x);
      add(y, halves[1].forward(x), f16);
      compare(y, x);
      for (std::size_t i : {0U, 1U}) {
        halves[i].backward(x, y);
        row == 0 ? void(first[i] = halves[i].gradients) : add(halves[i].gradients, first[i], f16);
      }
    }
    for (Half& half : halves) {
      half.update();
    }
  }
  return halves[static_cast<std::size_t>(wanted)].parameters;
}

std::uint64_t hash_of(Values const& values) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325U;
  for (float const value : values) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100'0000'01b3U;
  }
  return hash;
}

}  // namespace

int main(int argc, char** argv) try {
  std::uint64_t const steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : kSteps;
  bool const f16 = argc > 2 && std::string(argv[2]) == "f16";
  Grid grid(steps, f16);
  cxxrun::run_elastic(grid);
  auto const& mine = grid.half();
  bool const same = mine.parameters == train_data_parallel(mine.which, steps, f16);
  std::printf("half %d after %llu steps: %016llx, %s data parallel's\n", mine.which,
              static_cast<unsigned long long>(steps), static_cast<unsigned long long>(hash_of(mine.parameters)),
              same ? "the same as" : "NOT");
  return same ? 0 : 1;
} catch (std::exception const& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
