// run_elastic: training that goes on in the same processes when a peer dies.
//
//   struct Training : cxxrun::ElasticTask { … };
//   Training training(…);
//   cxxrun::run_elastic(training);                    // instead of Communicator::init() and a loop around step()
//
// When a rank dies, the others keep their processes, and with them their models, caches and devices. Their calls throw
// PeerFailure, which run_elastic catches; the launcher starts the missing ranks anew and forms the next generation, in
// which all meet again. Who has the highest completed step gives its state to those that have less; the step that
// failed is done again. Nothing is read from a checkpoint, unless everybody is new or the states are more than one
// step apart. The world may have become smaller or larger.
//
// Under a launcher that cannot do that (all but cxxrun) the first PeerFailure is thrown.
// Anything unexpected ends the process, and the launcher starts it anew from its checkpoint: survival is a short cut,
// not the only way. Rules: docs/design/survival.md.
//
// Threads: everything is called on the thread that calls run_elastic.
#pragma once

#include "cxxrun/version.hpp"

#include <cstdint>
#include <functional>
#include <span>

#include "cxxrun/communicator.hpp"

namespace cxxrun {

/// What run_elastic trains. A step is all or nothing: step() makes all its calls on the Communicator before it changes
/// what completed(), share() and a checkpoint tell. Any member may throw; PeerFailure leads to another generation,
/// everything else leaves run_elastic.
class ElasticTask {
 public:
  ElasticTask() = default;
  ElasticTask(ElasticTask const&) = delete;
  ElasticTask& operator=(ElasticTask const&) = delete;
  virtual ~ElasticTask() = default;

  /// Steps that are in this process's state.
  [[nodiscard]] virtual std::uint64_t completed() const = 0;
  /// Another world: makes arenas and synchronizers anew and moves the state there. What was made with the
  /// Communicator before can still be read and is to be dropped here, but not before all is made that is collective:
  /// after a PeerFailure in the middle it is called again, for the world after. Collective.
  virtual void attach(Communicator& comm) = 0;
  /// Takes up the latest checkpoint, if there is one. On rank 0 only; a Failure is thrown on all ranks.
  virtual void load() {}
  /// Everybody's state becomes that of rank `donor`. Where it was at the same step it is the same: the donor may die
  /// in the middle. Collective.
  virtual void share(Communicator& comm, int donor) = 0;
  /// One step; false when training is done. Collective.
  [[nodiscard]] virtual bool step(Communicator& comm) = 0;
};

/// Trains until step() returns false on all ranks. Blocks; between generations for as long as the launcher takes.
/// Failure: as from Communicator::init() and from the task; closed when the launcher ends the job meanwhile.
void run_elastic(ElasticTask& task, Communicator::Options options);
inline void run_elastic(ElasticTask& task) {
  run_elastic(task, Communicator::Options{});
}

/// Calls `action` on rank 0, and returns on all ranks when it is through. A Failure that it throws is thrown on every
/// rank, so that nobody takes it for the death of a peer. Collective.
void on_rank_0(Communicator& comm, std::function<void()> const& action);

/// Where one rank stands when a generation begins.
struct Standing {
  std::uint64_t completed = 0;
  bool fresh = true;             ///< its process has done nothing yet, and loaded nothing
  std::uint64_t generation = 0;  ///< the last one that it was in; others may have gone on since (Options::shrink)
};
/// How all ranks come to the same state.
struct Recovery {
  bool load = false;   ///< rank 0 loads the checkpoint first
  bool share = false;  ///< all take the donor's state
  int donor = 0;
  bool operator==(Recovery const&) const = default;
};
/// By rank; the same answer on every rank. Pure: what run_elastic decides by.
[[nodiscard]] Recovery plan_recovery(std::span<Standing const> ranks);

}  // namespace cxxrun
