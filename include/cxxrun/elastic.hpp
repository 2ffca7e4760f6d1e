// run_elastic: training that continues in the surviving processes when a peer dies.
//
//   struct Training : cxxrun::ElasticTask { … };
//   Training training(…);
//   cxxrun::run_elastic(training);                    // instead of Communicator::init() and a loop around step()
//
// When a rank dies, the others keep their processes, with their models, caches and devices. Their calls throw
// PeerFailure, which run_elastic catches. The launcher restarts the missing ranks and forms the next generation, whose
// world may be smaller or larger. There the rank with the most completed steps gives its state to the ranks that have
// fewer, and the failed step is repeated. A checkpoint is read only if every rank is new, or if the states are more
// than one step apart.
//
// Only cxxrun can do this. Under any other launcher the first PeerFailure is thrown.
// Every other problem ends the process, and the launcher restarts it from its checkpoint: survival is a shortcut, not
// the only way to recover. docs/design/survival.md has the rules.
//
// Threads: every callback runs on the thread that calls run_elastic.
#pragma once

#include "cxxrun/version.hpp"

#include <cstdint>
#include <functional>
#include <span>

#include "cxxrun/communicator.hpp"

namespace cxxrun {

/// What run_elastic trains. A step is all or nothing: step() finishes all its calls on the Communicator before it
/// changes anything that completed(), share() or a checkpoint can see. Any member may throw. PeerFailure leads to
/// another generation; every other exception leaves run_elastic.
class ElasticTask {
 public:
  ElasticTask() = default;
  ElasticTask(ElasticTask const&) = delete;
  ElasticTask& operator=(ElasticTask const&) = delete;
  virtual ~ElasticTask() = default;

  /// Number of steps contained in this process's state.
  [[nodiscard]] virtual std::uint64_t completed() const = 0;
  /// The world has changed: build new arenas and synchronizers and move the state into them. Objects built with the old
  /// Communicator can still be read; drop them here, but only after every collective construction has succeeded,
  /// because after a PeerFailure in the middle attach() is called again for the world after that. Collective.
  virtual void attach(Communicator& comm) = 0;
  /// Loads the latest checkpoint, if there is one. Called on rank 0 only; its Failure is thrown on all ranks.
  virtual void load() {}
  /// Copies the state of rank `donor` to all ranks. A rank that is at the donor's step already has that state and must
  /// still have it if the donor dies during the copy. Collective.
  virtual void share(Communicator& comm, int donor) = 0;
  /// Trains one step; returns false when training is done. Collective.
  [[nodiscard]] virtual bool step(Communicator& comm) = 0;
};

/// Trains until step() returns false on all ranks. Blocks; between generations for as long as the launcher takes.
/// Failure: as for Communicator::init(), and whatever the task throws; closed when the launcher ends the job between
/// generations.
void run_elastic(ElasticTask& task, Communicator::Options options);
inline void run_elastic(ElasticTask& task) {
  run_elastic(task, Communicator::Options{});
}

/// Calls `action` on rank 0 and returns on all ranks when it has finished. A Failure thrown by `action` is thrown on
/// every rank, so that no rank mistakes it for the death of a peer. Collective.
void on_rank_0(Communicator& comm, std::function<void()> const& action);

/// The state of one rank at the start of a generation.
struct Standing {
  std::uint64_t completed = 0;
  bool fresh = true;  ///< the process has not trained and not loaded anything yet
  std::uint64_t generation =
      0;  ///< the last generation it took part in; others may have continued without it (Options::shrink)
};
/// How all ranks reach the same state.
struct Recovery {
  bool load = false;   ///< rank 0 loads the checkpoint first
  bool share = false;  ///< then all ranks take the donor's state
  int donor = 0;
  bool operator==(Recovery const&) const = default;
};
/// Decides the recovery from the ranks' states, by rank. Pure; gives the same answer on every rank.
[[nodiscard]] Recovery plan_recovery(std::span<Standing const> ranks);

}  // namespace cxxrun
