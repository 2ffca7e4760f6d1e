// One rank of sync_bench.py: steps with a simulated backward, with and without the synchronizer. Rank 0 prints JSON.
//
// Usage: sync_bench MIB PARAMETERS BACKWARD_MS STEPS
// The backward writes every gradient and sleeps for the rest of its time, as if the work were done elsewhere.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"
#include "tests/support/allocations.hpp"

namespace {

using namespace cxxrun;  // NOLINT(google-build-using-namespace)
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::vector<Parameter> equal_parameters(std::size_t number, std::size_t count) {
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < number; ++i) {
    parameters.push_back({"p" + std::to_string(i), count, DType::f32});
  }
  return parameters;
}

void backward(GradientSynchronizer& sync, std::chrono::nanoseconds time, bool mark) {
  auto const begin = Clock::now();
  auto const share = time / static_cast<long>(sync.size());
  for (std::size_t i = sync.size(); i-- > 0;) {
    std::ranges::fill(sync.gradient<float>(i), 1.0F);
    std::this_thread::sleep_until(begin + share * static_cast<long>(sync.size() - i));
    if (mark) {
      sync.mark_ready(i);
    }
  }
}

struct Steps {
  double backward_ms = 0;
  double step_ms = 0;
  double exposed_ms = 0;
  std::size_t allocations = 0;
};

Steps run_steps(Communicator& comm, std::size_t mib, std::size_t number, std::chrono::nanoseconds time, int steps) {
  GradientSynchronizer sync(comm, equal_parameters(number, (mib << 18) / number), {});
  for (int i = 0; i < 3; ++i) {  // pages, order, threads
    backward(sync, time, true);
    sync.wait();
  }
  std::vector<double> alone;
  std::vector<double> together;
  std::vector<double> exposed;
  exposed.reserve(static_cast<std::size_t>(steps));
  together.reserve(static_cast<std::size_t>(steps));
  std::size_t count = 0;
  for (int i = 0; i < steps; ++i) {
    comm.barrier();
    auto begin = Clock::now();
    backward(sync, time, false);
    alone.push_back(ms_since(begin));
    comm.barrier();
    auto const before = test::allocations();
    begin = Clock::now();
    backward(sync, time, true);
    sync.wait();
    together.push_back(ms_since(begin));
    exposed.push_back(std::chrono::duration<double, std::milli>(sync.stats().exposed).count());
    count += test::allocations() - before;
  }
  return {median(alone), median(together), median(exposed), count};
}

/// Nanoseconds per mark_ready(), launches included: 10,000 gradients of 4 KiB in buckets of 25 MiB.
double mark_ns(Communicator& comm, int steps) {
  GradientSynchronizer sync(comm, equal_parameters(10'000, 1024), {});
  std::vector<double> each;
  for (int step = 0; step < steps + 2; ++step) {
    comm.barrier();
    auto const begin = Clock::now();
    for (std::size_t i = sync.size(); i-- > 0;) {
      sync.mark_ready(i);
    }
    each.push_back(ms_since(begin) * 1e6 / static_cast<double>(sync.size()));
    sync.wait();
  }
  return median(each);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: sync_bench MIB PARAMETERS BACKWARD_MS STEPS\n");
    return 2;
  }
  try {
    auto comm = Communicator::init();
    auto const number = [&](int i) { return static_cast<std::size_t>(std::strtoul(argv[i], nullptr, 10)); };
    int const steps = static_cast<int>(number(4));
    auto const time = std::chrono::milliseconds(number(3));
    auto const result = run_steps(comm, number(1), number(2), time, steps);
    double const mark = mark_ns(comm, steps);
    if (comm.rank() == 0) {
      std::printf(
          "{\"backward_ms\": %.3f, \"step_ms\": %.3f, \"exposed_ms\": %.3f, \"allocations\": %zu, \"mark_ns\": %.1f}\n",
          result.backward_ms, result.step_ms, result.exposed_ms, result.allocations, mark);
    }
    comm.barrier();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "sync_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
