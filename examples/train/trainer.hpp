// One training run on this rank: model, optimizer and sampler in step with all other ranks, in one world or several.
// Where tensors are and who calculates with them is a derived class's: HostTrainer, or DeviceTrainer (../train_cuda).
//
// A step is all or nothing: what it needs of the other ranks it has before it changes anything.
//
// What a checkpoint holds is everything that later steps depend on, so a run that was killed and resumed with as many
// ranks ends with the same bits as one that was not.
#pragma once

#include <memory>

#include "cxxrun/checkpoint.hpp"
#include "cxxrun/communicator.hpp"
#include "cxxrun/elastic_sampler.hpp"
#include "cxxrun/gradient_synchronizer.hpp"
#include "train/data.hpp"
#include "train/model.hpp"
#include "train/optimizer.hpp"
#include "train/options.hpp"

namespace train {

class Trainer {
 public:
  /// `text` must outlive this object.
  Trainer(Text const& text, Options const& options);
  Trainer(Trainer const&) = delete;
  Trainer& operator=(Trainer const&) = delete;
  virtual ~Trainer() = default;

  /// Before anything else, and again in every other world: makes memory and synchronizer anew and moves the state
  /// there; the first time, parameters are as the seed makes them. Collective. `comm` must outlive this object.
  void attach(cxxrun::Communicator& comm);

  /// Beside the tensors, what a step leaves for the next one. Trivially copyable: saved and broadcast as it is.
  struct State {
    std::uint64_t step = 0;
    cxxrun::ElasticSampler::State sampler;
    double loss = 0;  ///< of that step, the mean over all characters of all ranks
  };
  [[nodiscard]] State const& state() const { return state_; }

  /// What a checkpoint of this model and text is called.
  [[nodiscard]] std::string name() const;
  /// Valid until the next call.
  [[nodiscard]] std::vector<cxxrun::Checkpoint::Blob> blobs();
  /// On one rank; share() brings it to the others. Failure (usage) when sizes do not fit.
  void restore(cxxrun::Checkpoint::Loaded const& saved);
  /// Everybody goes on from that rank's state and tensors.
  void share(int donor);

  /// One step of all ranks; returns how many samples they had together. After an exception nothing has changed.
  std::uint64_t step();

  /// Of the parameters, after comparing it over all ranks: Failure (protocol) when they differ.
  [[nodiscard]] std::uint64_t hash();

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
  State state_;
  std::vector<float> saved_weights_, saved_mean_, saved_square_;  ///< what blobs() shows
};

}  // namespace train
