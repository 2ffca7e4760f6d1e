// Tensor x data parallelism on a grid of 2 x 2 ranks, with groups of a Communicator.
//
//   cxxrun --nproc-per-node 4 build/release/bin/examples/grid          (any launcher that sets RANK and the rest)
//
// Ranks 0 and 1 hold half of the hidden units each and see the same samples; so do ranks 2 and 3, with other samples.
// Forward adds the halves' outputs in the tensor group, and gradients are added in the data group: ranks 0 and 2, 1
// and 3. Each rank calls its groups in this order in every step, so nobody waits for ever.
//
// At the end each rank trains once more with data parallelism alone, both halves on every rank, and compares: the same
// bits, because both add two halves and then two gradients, and a + b is b + a. With more than two in a group the
// order of adding could differ, and the results would agree within rounding.
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "cxxrun/communicator.hpp"

namespace {

constexpr std::size_t kIn = 6;
constexpr std::size_t kHalf = 8;  // hidden units of one rank
constexpr std::size_t kOut = 3;
constexpr std::size_t kSamples = 5;
constexpr int kSteps = 50;
constexpr float kRate = 0.01F;

using Values = std::vector<float>;

/// Half of a network y = B A x: rows of A and columns of B, one after the other, and the gradients of both.
struct Half {
  explicit Half(int which) {
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

  Values parameters = Values(kHalf * (kIn + kOut));
  Values gradients = Values(parameters.size());
  Values hidden = Values(kSamples * kHalf);
};

/// The samples of one row of the grid in one step.
Values samples_of(int row, int step) {
  Values x(kSamples * kIn);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(std::cos(static_cast<double>(i) * 1.7 + row * 31 + step * 7));
  }
  return x;
}

/// The outputs become what is wrong with them: they should be the first inputs.
void compare(Values& y, Values const& x) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] -= x[i / kOut * kIn + i % kOut];
  }
}

Values train_on_grid(cxxrun::Communicator& tensor, cxxrun::Communicator& data) {
  Half half(tensor.rank());
  for (int step = 0; step < kSteps; ++step) {
    auto const x = samples_of(data.rank(), step);
    auto y = half.forward(x);
    tensor.all_reduce(std::span(y));
    compare(y, x);
    half.backward(x, y);
    data.all_reduce(std::span(half.gradients));
    half.update();
  }
  return half.parameters;
}

Values train_data_parallel(cxxrun::Communicator& data, int wanted) {
  std::array<Half, 2> halves{Half(0), Half(1)};
  for (int step = 0; step < kSteps; ++step) {
    auto const x = samples_of(data.rank(), step);
    auto y = halves[0].forward(x);
    auto const other = halves[1].forward(x);
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] += other[i];
    }
    compare(y, x);
    for (Half& half : halves) {
      half.backward(x, y);
      data.all_reduce(std::span(half.gradients));
      half.update();
    }
  }
  return halves[static_cast<std::size_t>(wanted)].parameters;
}

}  // namespace

int main() try {
  auto comm = cxxrun::Communicator::init();
  if (comm.world_size() != 4) {
    std::fprintf(stderr, "grid: needs 4 ranks, for 2 x 2; there are %d: say --nproc-per-node 4\n", comm.world_size());
    return 2;
  }
  auto tensor = *comm.split(comm.rank() / 2);
  auto data = *comm.split(comm.rank() % 2);
  bool const same = train_on_grid(tensor, data) == train_data_parallel(data, tensor.rank());
  std::printf("rank %d, half %d: %s data parallel's\n", comm.rank(), tensor.rank(), same ? "the same as" : "NOT");
  comm.barrier();
  return same ? 0 : 1;
} catch (std::exception const& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
