// Generations: the way of one Communicator through the generations of its job. Shell; docs/design/survival.md has the
// rules.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cxxrun/communicator.hpp"
#include "src/base/worker/agent_link.hpp"
#include "src/base/worker/recorder.hpp"
#include "src/runtime/client/join.hpp"

namespace cxxrun::client {

class Generations {
 public:
  /// Registers with the agent, if there is one.
  Generations(WorkerEnv env, Communicator::Options const& options);

  /// The environment of the generation that join() meets.
  [[nodiscard]] WorkerEnv const& env() const { return env_; }
  [[nodiscard]] Communicator::Options const& options() const { return options_; }
  [[nodiscard]] bool can_go_on() const { return options_.survive && link_ != nullptr && link_->survives(); }
  /// The generation that join() had met before the current one; 0: none. Generations in between ran without this
  /// process.
  [[nodiscard]] std::uint64_t met_before() const { return before_; }
  [[nodiscard]] worker::ControlPage* page() const { return link_ == nullptr ? nullptr : &link_->page(); }

  /// Meets the other ranks. If that fails and the agent says, before or soon after, that the generation is over, the
  /// failure becomes a PeerFailure (stopped), after which this process can go on.
  [[nodiscard]] JoinResult join();
  /// The same for a group of the ranks that join() has met.
  [[nodiscard]] JoinResult split(SplitParent const& parent, comm::Wish wish);
  /// Records the collectives of what join() returned.
  [[nodiscard]] worker::Recorder recorder();
  /// Calls `tell` once when the generation is over and `hurry` when others wait for this process; never without an
  /// agent.
  [[nodiscard]] worker::AgentLink::Watch watch(std::function<void()> tell, worker::AgentLink::Hurry hurry = {}) const;

  /// Waits until the agent names the next generation, and takes over its variables. `why` is for the agent's log.
  void await_next(std::string const& why);

 private:
  [[nodiscard]] JoinResult meet(std::function<JoinResult(JoinOptions const&)> const& how);
  [[nodiscard]] bool is_of_the_end(Failure const& failure, Interruption const& over) const;

  WorkerEnv env_;
  Communicator::Options options_;
  Lookup lookup_;
  worker::AgentLink* link_ = nullptr;
  std::uint64_t met_ = 0;
  std::uint64_t before_ = 0;
};

}  // namespace cxxrun::client
