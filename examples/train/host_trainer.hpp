// A trainer in host memory.
#pragma once

#include "train/arena_trainer.hpp"

namespace train {

class HostTrainer final : public ArenaTrainer {
 public:
  HostTrainer(Text const& text, Options const& options);

 private:
  Totals calculate(World& world, Text::Batch const& batch) override;
  void optimize(World& world, AdamFactors const& factors, float scale) override;
  void copy(void* to, void const* from, std::size_t bytes) override;

  Model<float> model_;
};

}  // namespace train
