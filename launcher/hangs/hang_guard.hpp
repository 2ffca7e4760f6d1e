// HangGuard: looks at the pages of this node's workers while they run, kills one that the others wait for, and knows
// whether they get on. Shell.
//
// What it sees it gives to progress_watch, and what that wants told to `tell`; who is killed is the coordinator's
// decision (rendezvous/hangs/hanging.hpp). On the io_context's thread, like the Supervisor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/facts/environment.hpp"
#include "launcher/hangs/hang_text.hpp"
#include "launcher/hangs/named_fate.hpp"
#include "launcher/hangs/progress_watch.hpp"
#include "launcher/hangs/unseen_workers.hpp"
#include "launcher/life/agent_state.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "launcher/workers/stop_order.hpp"
#include "rendezvous/values/generation.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

class Supervisor;

class HangGuard : public std::enable_shared_from_this<HangGuard> {
 public:
  /// `io` and `supervisor` outlive it. Of `options` --hang-timeout and --watch count. `environment`: where the debugger
  /// is looked for. `tell`: from the io_context; of the calls, from inside `kill` alone.
  HangGuard(boost::asio::io_context& io, Supervisor& supervisor, Options const& options, NodeFacts const& facts,
            Environment environment, std::function<void(agent::Event)> tell);

  /// The workers of this generation run.
  void begin(rendezvous::Generation const& generation);
  /// They are asked to end. Of those that are still there shortly before they are killed it says where they stand.
  void stopping(StopOrder const& order);
  /// They have ended: nobody is looked at, and nobody is killed by it any more.
  void end();
  /// How far those of this generation have come, also when they have ended.
  [[nodiscard]] rendezvous::StepTimes steps(std::uint64_t number) const;
  /// While they are frozen nobody is looked at.
  void pause(bool frozen) { frozen_ = frozen; }
  /// Unless the worker has moved since the judgement: its last collectives and its stack go to hang.txt and, shorter,
  /// to the console, then it gets SIGKILL. Takes about 14 s at most, without blocking. One that others have named has
  /// no time for a stack: the others wait. `tell` hears of one that has ended with 0.
  void kill(agent::KillWorker const& what);

 private:
  void arm();
  std::optional<worker::Figures> figures_of(std::uint32_t local_rank);
  void look_around();
  void look_for_unseen_workers();
  void look_at_late(StopOrder const& order, Millis left);
  [[nodiscard]] std::string name(agent::KillWorker const& what) const;
  bool holds(agent::KillWorker const& what);
  void take_stacks(pid_t pid, std::function<void(Stacks const&, bool judged_for_good)> done);
  void show_stack(agent::KillWorker const& what, Stacks const& stacks) const;
  void write(agent::KillWorker const& what, std::string const& text) const;
  void finish(agent::KillWorker const& what, std::string const& where, bool judged_for_good);
  void end_named(agent::KillWorker const& what);
  NamedWorker look_at_named(std::uint32_t local_rank);
  void kill_named(agent::KillWorker const& what);

  boost::asio::io_context& io_;
  Supervisor& supervisor_;
  std::string host_;
  std::string log_root_;  // "" = no files
  Environment environment_;
  std::function<void(agent::Event)> tell_;
  WatchPolicy policy_;
  UnseenPolicy unseen_policy_;
  os::Timer timer_;
  std::optional<rendezvous::Generation> generation_;  // while its workers run
  UnseenState unseen_;
  os::Timer late_timer_;
  std::uint32_t rank_base_ = 0;
  WatchState watch_;
  TimePoint began_;  // the workers of the newest generation here, so many
  std::uint32_t workers_ = 0;
  bool frozen_ = false;
  /// A worker that others have named, and that is given time to end by itself.
  struct Patience {
    explicit Patience(boost::asio::io_context& io) : timer(io) {}
    os::Timer timer;
    TimePoint since = Clock::now();
    std::int64_t alive = 0;  // by then
    std::optional<TimePoint> heard{};
  };
  std::map<std::uint32_t, Patience> patience_;         // by local rank
  std::map<std::uint32_t, rendezvous::Kill> killing_;  // by local rank: its stack is being taken
};

}  // namespace cxxrun::launcher
