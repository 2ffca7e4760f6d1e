// One training run on this rank: model, optimizer and sampler in step with all other ranks, in one world or several.
// Where tensors are and who calculates with them is a derived class's; what is shown and saved of it is in Training.
//
// A step is all or nothing: what it needs of the other ranks it has before it changes anything.
//
// What a checkpoint holds is everything that later steps depend on, so a run that was killed and resumed with as many
// ranks ends with the same bits as one that was not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cxxrun/checkpoint.hpp"
#include "cxxrun/communicator.hpp"
#include "cxxrun/elastic_sampler.hpp"

namespace train {

class Trainer {
 public:
  Trainer() = default;
  Trainer(Trainer const&) = delete;
  Trainer& operator=(Trainer const&) = delete;
  virtual ~Trainer() = default;

  /// Before anything else, and again in every other world: makes memory and synchronizer anew and moves the state
  /// there; the first time, parameters are as the seed makes them. Collective. `comm` must outlive this object.
  virtual void attach(cxxrun::Communicator& comm) = 0;

  /// Beside the tensors, what a step leaves for the next one. Trivially copyable: saved and broadcast as it is.
  struct State {
    std::uint64_t step = 0;
    cxxrun::ElasticSampler::State sampler;
    double loss = 0;  ///< of that step, the mean over all characters of all ranks
  };
  [[nodiscard]] State const& state() const { return state_; }

  /// What a checkpoint of this model and text is called.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Valid until the next call.
  [[nodiscard]] virtual std::vector<cxxrun::Checkpoint::Blob> blobs() = 0;
  /// On one rank; share() brings it to the others. Failure (usage) when sizes do not fit.
  virtual void restore(cxxrun::Checkpoint::Loaded const& saved) = 0;
  /// Everybody goes on from that rank's state and tensors.
  virtual void share(int donor) = 0;

  /// One step of all ranks; returns how many samples they had together. After an exception nothing has changed.
  virtual std::uint64_t step() = 0;

  /// Of this rank's parameters.
  [[nodiscard]] virtual std::uint64_t hash() = 0;

 protected:
  State state_;
};

}  // namespace train
