// Generations: one Communicator's way through the generations of its job. Shell; docs/design/survival.md has the rules.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cxxrun/communicator.hpp"
#include "src/base/worker/agent_link.hpp"
#include "src/base/worker/recorder.hpp"
#include "src/runtime/client/join.hpp"
#include "src/runtime/client/split.hpp"

namespace cxxrun::client {

class Generations {
 public:
  /// Registers with the agent, if there is one.
  Generations(WorkerEnv env, Communicator::Options const& options);

  /// Of the generation that join() means.
  [[nodiscard]] WorkerEnv const& env() const { return env_; }
  [[nodiscard]] Communicator::Options const& options() const { return options_; }
  [[nodiscard]] bool can_go_on() const { return options_.survive && link_ != nullptr && link_->survives(); }
  /// The generation that join() has met before the present one; 0: none. What ran in between went on without us.
  [[nodiscard]] std::uint64_t met_before() const { return before_; }
  [[nodiscard]] worker::ControlPage* page() const { return link_ == nullptr ? nullptr : &link_->page(); }

  /// Meets the others. Where the agent says before, or soon after, that the generation is over, a failure to meet them
  /// is a PeerFailure (stopped) of a process that can go on.
  [[nodiscard]] Joined join();
  /// The same for a group of those that join() has met.
  [[nodiscard]] Joined split(Whole const& whole, comm::Wish wish);
  /// For the collectives of what join() gave.
  [[nodiscard]] worker::Recorder recorder();
  /// `tell` once when the generation is over, `hurry` when others wait for this process; nothing without an agent.
  [[nodiscard]] worker::AgentLink::Watch watch(std::function<void()> tell, worker::AgentLink::Hurry hurry = {}) const;

  /// Parks until the agent names the next generation, and takes up its variables. `why` is for its log.
  void await_next(std::string const& why);

 private:
  [[nodiscard]] Joined meet(std::function<Joined(JoinOptions const&)> const& how);
  [[nodiscard]] bool is_of_the_end(Failure const& failure, Interruption const& over) const;

  WorkerEnv env_;
  Communicator::Options options_;
  Lookup lookup_;
  worker::AgentLink* link_ = nullptr;
  std::uint64_t met_ = 0;
  std::uint64_t before_ = 0;
};

}  // namespace cxxrun::client
