// What run_elastic trains: a Trainer, and what rank 0 shows and saves of it.
#pragma once

#include <optional>

#include "cxxrun/checkpoint.hpp"
#include "cxxrun/elastic.hpp"
#include "train/curve.hpp"
#include "train/options.hpp"
#include "train/progress.hpp"
#include "train/trainer.hpp"

namespace train {

class Training final : public cxxrun::ElasticTask {
 public:
  /// `trainer` must outlive this object.
  Training(Trainer& trainer, Options options);

  [[nodiscard]] std::uint64_t completed() const override { return trainer_.state().step; }
  void attach(cxxrun::Communicator& comm) override;
  void load() override;
  void share(cxxrun::Communicator& comm, int donor) override;
  [[nodiscard]] bool step(cxxrun::Communicator& comm) override;

 private:
  void begin(cxxrun::Communicator& comm);
  void note(cxxrun::Communicator& comm, std::uint64_t samples);
  void save(cxxrun::Communicator& comm);
  void finish(cxxrun::Communicator& comm);
  [[nodiscard]] bool saves() const { return !options_.checkpoint_directory.empty(); }
  [[nodiscard]] cxxrun::Checkpoint& checkpoint();

  Options options_;
  Trainer& trainer_;
  std::uint64_t generation_ = 0;
  bool begun_ = false;   ///< in this generation
  bool loaded_ = false;  ///< in this generation
  bool told_ = false;    ///< how it ended
  std::optional<Progress> progress_;
  // Of rank 0.
  std::optional<cxxrun::Checkpoint> checkpoint_;
  std::uint64_t checkpoint_of_ = 0;  ///< which generation its directory is kept for
  std::optional<Curve> curve_;
};

}  // namespace train
