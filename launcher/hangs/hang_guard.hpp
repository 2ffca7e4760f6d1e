// HangGuard: looks at the pages of this node's workers while they run, and kills one that the others wait for. Shell.
//
// What it sees it gives to progress_watch, and what that wants told to `tell`; who is killed is the coordinator's
// decision (rendezvous/membership/hanging.hpp). On the io_context's thread, like the Supervisor.
#pragma once

#include <functional>
#include <memory>

#include "launcher/facts/environment.hpp"
#include "launcher/life/agent_state.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "rendezvous/values/generation.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

class Supervisor;

class HangGuard {
 public:
  /// `io` and `supervisor` outlive it. `hang_timeout`: --hang-timeout, 0 = none. `environment`: where the debugger is
  /// looked for. `tell`: from the io_context, never from inside a call.
  HangGuard(boost::asio::io_context& io, Supervisor& supervisor, Millis hang_timeout, NodeFacts const& facts,
            Environment environment, std::function<void(agent::StoodStill)> tell);
  ~HangGuard();
  HangGuard(HangGuard const&) = delete;
  HangGuard& operator=(HangGuard const&) = delete;

  /// The workers of this generation run.
  void begin(rendezvous::Generation const& generation);
  /// They are being stopped, or have ended: nobody is looked at, and nobody is killed by it any more.
  void end();
  /// While they are frozen nobody is looked at.
  void pause(bool frozen);
  /// Unless the worker has moved since the judgement: its last collectives and its stack go to hang.txt and, shorter,
  /// to the console, then it gets SIGKILL. Takes about 12 s at most, without blocking.
  void kill(agent::KillWorker const& order);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::launcher
