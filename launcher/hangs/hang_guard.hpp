// HangGuard: watches the progress of this node's workers while they run, and kills one when the coordinator says that
// the others wait for it. Shell.
//
// progress_watch decides what is reported to the agent; the coordinator decides who is killed (rendezvous/hangs).
// Runs on the io_context's thread, like the Supervisor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/facts/environment.hpp"
#include "launcher/hangs/hang_text.hpp"
#include "launcher/hangs/progress_watch.hpp"
#include "launcher/life/agent_state.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "launcher/workers/stop_order.hpp"
#include "rendezvous/values/generation.hpp"
#include "rendezvous/values/story.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

class Supervisor;

class HangGuard : public std::enable_shared_from_this<HangGuard> {
 public:
  /// `io`, `supervisor` and `agent` outlive it. Uses --hang-timeout and --watch of `options`. `environment`: has the
  /// PATH for the debugger. Events come from the io_context; of the methods below, only `kill` feeds some directly.
  HangGuard(boost::asio::io_context& io, Supervisor& supervisor, Options const& options, NodeFacts const& facts,
            Environment environment, agent::Inbox& agent);

  /// The workers of this generation run from now on.
  void begin(rendezvous::Generation const& generation);
  /// The workers are asked to end. Logs where those are that still run shortly before the grace is over.
  void stopping(StopOrder const& order);
  /// The workers have ended: stops watching, and kills no worker any more.
  void end();
  /// The progress of the workers of that generation, also after their end.
  [[nodiscard]] rendezvous::StepTimes steps(std::uint64_t number) const;
  /// Frozen workers are not watched.
  void pause(bool frozen) { frozen_ = frozen; }
  /// Kills the worker, unless it has moved since the coordinator judged it. Before that its last collectives and its
  /// stack are written to hang.txt and, shorter, to the console, and what NCCL says of it. Takes at most about 20 s,
  /// without blocking. Neither is asked about a worker that other ranks have named, because they wait. If such a worker
  /// has ended with 0, the agent gets its end as a failure.
  void kill(agent::KillWorker const& what);
  /// The coordinator, which is in this agent, has named a hang: writes what NCCL says of it to hang.txt in the
  /// directory of the generation.
  void note(rendezvous::story::Hang const& hang);

 private:
  void arm();
  std::optional<worker::Figures> figures_of(std::uint32_t local_rank);
  void watch_pages();
  void watch_unseen_workers();
  void report_late_workers(StopOrder const& order, Millis left);
  [[nodiscard]] std::string name(agent::KillWorker const& what) const;
  bool still_hangs(agent::KillWorker const& what);
  void take_stacks(pid_t pid, std::function<void(Stacks const&, bool judged_for_good)> done);
  void show_stack(agent::KillWorker const& what, Stacks const& stacks) const;
  void write(agent::KillWorker const& what, std::string const& text) const;
  void write(std::string const& dir, std::string const& text) const;
  void ask_nccl(std::function<void(std::string const& section)> done);
  void finish(agent::KillWorker const& what, std::string const& where, bool judged_for_good);
  void handle_named(agent::KillWorker const& what);
  NamedWorker sample_named(std::uint32_t local_rank);
  void kill_named(agent::KillWorker const& what);

  boost::asio::io_context& io_;
  Supervisor& supervisor_;
  std::string host_;
  std::string log_root_;  // "" = no files
  std::string ras_;       // where NCCL answers; "" = nowhere
  Environment environment_;
  agent::Inbox& agent_;
  WatchPolicy policy_;
  UnseenPolicy unseen_policy_;
  os::Timer timer_;
  std::optional<rendezvous::Generation> generation_;  // while its workers run
  UnseenState unseen_;
  os::Timer late_timer_;
  std::uint32_t rank_base_ = 0;
  WatchState watch_;
  TimePoint began_;            // start of the newest generation
  std::uint32_t workers_ = 0;  // its workers on this node
  bool frozen_ = false;
  int noted_ = 0;  // hangs in the newest generation
  /// A named worker that is given time to end by itself.
  struct Patience {
    explicit Patience(boost::asio::io_context& io) : timer(io) {}
    os::Timer timer;
    TimePoint since = Clock::now();
    std::int64_t alive = 0;  // of its page at that time
    std::optional<TimePoint> heard{};
  };
  std::map<std::uint32_t, Patience> patience_;         // by local rank
  std::map<std::uint32_t, rendezvous::Kill> killing_;  // by local rank: its stack is being taken
};

}  // namespace cxxrun::launcher
