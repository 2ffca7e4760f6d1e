// A trainer whose tensors are in an arena: the collectives use them where they are.
// Where that is and who calculates with them is a derived class's: HostTrainer, or DeviceTrainer (../train_cuda).
#pragma once

#include <memory>

#include "cxxrun/gradient_synchronizer.hpp"
#include "train/data.hpp"
#include "train/model.hpp"
#include "train/optimizer.hpp"
#include "train/options.hpp"
#include "train/trainer.hpp"

namespace train {

class ArenaTrainer : public Trainer {
 public:
  /// `text` must outlive this object.
  ArenaTrainer(Text const& text, Options const& options);

  void attach(cxxrun::Communicator& comm) override;
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] std::vector<cxxrun::Checkpoint::Blob> blobs() override;
  void restore(cxxrun::Checkpoint::Loaded const& saved) override;
  void share(int donor) override;
  std::uint64_t step() override;
  [[nodiscard]] std::uint64_t hash() override { return hash_of(cxxrun::bytes_of(fetch(world_->weights))); }

 protected:
  using Tensors = std::vector<std::span<float>>;
  /// What belongs to the ranks of one world.
  struct World {
    World(cxxrun::Communicator& communicator, std::vector<ParameterShape> const& names);
    /// Of this step, by parameter.
    [[nodiscard]] Tensors gradients();

    cxxrun::Communicator& comm;
    cxxrun::Arena arena;
    std::span<float> weights, mean, square;  ///< in the arena: broadcast and compared without a copy
    std::span<double> totals;                ///< loss and characters of a step, over all ranks
    Tensors weight, mean_of, square_of;      ///< the same by parameter
    cxxrun::GradientSynchronizer sync;
  };
  struct Totals {
    double loss = 0;
    double characters = 0;
  };

  /// Forward and backward: then the synchronizer's gradients are those of all ranks, and so are the totals.
  virtual Totals calculate(World& world, Text::Batch const& batch) = 0;
  /// Changes parameters and moments of Adam by the gradients times `scale`.
  virtual void optimize(World& world, AdamFactors const& adam, float scale) = 0;
  /// From or to tensors, or both; done when it returns.
  virtual void copy(void* to, void const* from, std::size_t bytes) = 0;

  [[nodiscard]] Shape const& shape() const { return shape_; }
  [[nodiscard]] Options const& options() const { return options_; }

 private:
  void initialize(World& world);
  [[nodiscard]] std::vector<float> fetch(std::span<float> values);

  Text const& text_;
  Options options_;
  Shape shape_;
  std::vector<ParameterShape> names_;
  cxxrun::ElasticSampler sampler_;
  std::unique_ptr<World> world_;
  std::vector<float> saved_weights_, saved_mean_, saved_square_;  ///< what blobs() shows
};

}  // namespace train
