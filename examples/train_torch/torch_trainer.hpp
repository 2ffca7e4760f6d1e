// A trainer of libtorch: an ordinary torch::nn model and torch::optim optimizer, which know nothing of other ranks.
#pragma once

#include <memory>

#include "train/data.hpp"
#include "train/options.hpp"
#include "train/trainer.hpp"

namespace train {

/// `text` must outlive it.
[[nodiscard]] std::unique_ptr<Trainer> make_torch_trainer(Text const& text, Options const& options);

}  // namespace train
