#include "train/host_trainer.hpp"

#include <cstring>

namespace train {

HostTrainer::HostTrainer(Text const& text, Options const& options) : ArenaTrainer(text, options), model_(shape()) {}

ArenaTrainer::Totals HostTrainer::calculate(World& world, Text::Batch const& batch) {
  auto& [comm, arena, weights, mean, square, totals, weight, mean_of, square_of, sync] = world;
  double const loss = model_.forward(weight, batch.tokens, batch.targets);
  model_.backward(weight, world.gradients(), [&world](std::size_t i) { world.sync.mark_ready(i); });
  sync.wait();
  totals[0] = loss;
  totals[1] = static_cast<double>(batch.targets.size());
  comm.all_reduce(totals);
  return {totals[0], totals[1]};
}

void HostTrainer::optimize(World& world, AdamFactors const& factors, float scale) {
  for (std::size_t i = 0; i < world.weight.size(); ++i) {
    adam(factors, world.weight[i], world.sync.gradient<float>(i), world.mean_of[i], world.square_of[i], scale);
  }
}

void HostTrainer::copy(void* to, void const* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

}  // namespace train
