// One training run on this rank: model, optimizer and sampler in step with all other ranks.
//
// What a checkpoint holds is everything that later steps depend on, so a run that was killed and resumed with as many
// ranks ends with the same bits as one that was not.
#pragma once

#include "cxxrun/checkpoint.hpp"
#include "cxxrun/communicator.hpp"
#include "cxxrun/elastic_sampler.hpp"
#include "cxxrun/gradient_synchronizer.hpp"
#include "train/data.hpp"
#include "train/model.hpp"
#include "train/options.hpp"

namespace train {

class Trainer {
 public:
  /// Parameters as the seed makes them. `comm` and `text` must outlive this object.
  Trainer(cxxrun::Communicator& comm, Text const& text, Options const& options);

  /// Beside the tensors, what a step leaves for the next one. Trivially copyable: saved and broadcast as it is.
  struct State {
    std::uint64_t step = 0;
    cxxrun::ElasticSampler::State sampler;
    double loss = 0;  ///< of that step, the mean over all characters of all ranks
  };
  [[nodiscard]] State const& state() const { return state_; }

  /// What a checkpoint of this model and text is called.
  [[nodiscard]] std::string name() const;
  [[nodiscard]] std::vector<cxxrun::Checkpoint::Blob> blobs() const;
  /// On one rank; share() brings it to the others. Failure (usage) when sizes do not fit.
  void restore(cxxrun::Checkpoint::Loaded const& saved);
  /// Everybody goes on from rank 0's state and tensors.
  void share();

  /// One step of all ranks; returns how many samples they had together.
  std::uint64_t step();

  /// Of the parameters, after comparing it over all ranks: Failure (protocol) when they differ.
  [[nodiscard]] std::uint64_t hash();

 private:
  using Tensors = std::vector<std::span<float>>;
  [[nodiscard]] Tensors split(std::span<float> all) const;
  [[nodiscard]] cxxrun::GradientSynchronizer make_synchronizer();
  void optimize();

  cxxrun::Communicator& comm_;
  Text const& text_;
  Options options_;
  Shape shape_;
  std::vector<ParameterShape> names_;
  cxxrun::Arena arena_;
  std::span<float> weights_, mean_, square_;  ///< in the arena: broadcast and compared without a copy
  std::span<double> totals_;                  ///< loss and characters of a step, over all ranks
  Tensors weight_, mean_of_, square_of_;      ///< the same by parameter
  Model<float> model_;
  cxxrun::ElasticSampler sampler_;
  cxxrun::GradientSynchronizer sync_;
  State state_;
};

}  // namespace train
