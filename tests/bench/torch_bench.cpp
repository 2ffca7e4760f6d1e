// One rank of torch_bench.py: steps of an MLP of libtorch, with and without other ranks. Rank 0 prints JSON.
//
// Usage: torch_bench LAYERS WIDTH BATCH STEPS
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cxxrun/torch.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void run(cxxrun::Communicator& comm, long layers, long width, long batch, int steps) {
  torch::set_num_threads(1);
  torch::manual_seed(1);
  torch::nn::Sequential model;
  for (long i = 0; i < layers; ++i) {
    model->push_back(torch::nn::Linear(width, width));
    model->push_back(torch::nn::ReLU());
  }
  cxxrun::TorchGradients gradients(comm, *model);
  auto const input = torch::randn({batch, width});
  auto const step = [&](bool together) {
    gradients.zero();
    auto const loss = model->forward(input).sum();
    comm.barrier();
    auto const begin = Clock::now();
    if (together) {
      loss.backward();
      gradients.wait();
    } else {
      auto const pause = gradients.no_sync();
      loss.backward();
    }
    return ms_since(begin);
  };
  std::vector<double> alone;
  std::vector<double> whole;
  std::vector<double> waited;
  for (int i = 0; i < steps + 3; ++i) {
    double const mine = step(false);
    double const shared = step(true);
    if (i >= 3) {  // pages, order, threads
      alone.push_back(mine);
      whole.push_back(shared);
      waited.push_back(std::chrono::duration<double, std::milli>(gradients.synchronizer().stats().exposed).count());
    }
  }
  if (comm.rank() == 0) {
    auto const fastest = [](std::vector<double> const& times) { return *std::ranges::min_element(times); };
    std::printf(
        "{\"backward_ms\": %.3f, \"step_ms\": %.3f, \"fastest_backward_ms\": %.3f, \"fastest_step_ms\": %.3f, "
        "\"exposed_ms\": %.3f, \"copied\": %llu}\n",
        median(alone), median(whole), fastest(alone), fastest(whole), median(waited),
        static_cast<unsigned long long>(gradients.copied()));
  }
  comm.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: torch_bench LAYERS WIDTH BATCH STEPS\n");
    return 2;
  }
  try {
    auto comm = cxxrun::Communicator::init();
    run(comm, std::atol(argv[1]), std::atol(argv[2]), std::atol(argv[3]), std::atoi(argv[4]));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "torch_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
