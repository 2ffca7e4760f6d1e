// EndWatch: ends the job in time, and sends the checkpoint signal before. Shell of deadlines.hpp: reads slurm.conf, has
// one timer, passes the signal to the workers. Runs on the io_context's thread.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <sys/types.h>
#include <utility>

#include "launcher/facts/deadlines.hpp"
#include "launcher/facts/environment.hpp"
#include "launcher/life/agent_state.hpp"
#include "launcher/options/options.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/state_machine.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

class Supervisor;

/// Reads at most 1 MiB of the file that SLURM_CONF names, and of cgroup.conf beside it. If they cannot be read (a
/// container, a cluster that hides them), Slurm's defaults apply. Nothing outside a Slurm job.
[[nodiscard]] std::optional<SlurmConf> read_slurm_conf(Environment const& environment);

/// When this job ends, as far as this node knows now. Reads the clocks.
[[nodiscard]] EndPlan make_end_plan(Options const& options, Environment const& environment);

class EndWatch {
 public:
  /// The references outlive it. `agent`: gets an EndSignal when the time is up, and only cxxrun ends the job.
  EndWatch(boost::asio::io_context& io, EndPlan plan, Supervisor& supervisor, agent::Inbox& agent)
      : plan_(std::move(plan)), supervisor_(supervisor), agent_(agent), timer_(io) {}

  /// Starts to watch the deadline, also while no workers run. Logs options that have no effect.
  void begin();
  /// `told`: when the job ends, says the coordinator.
  void workers_run(std::optional<rendezvous::JobEnd> const& told);
  void workers_end() { happen(countdown::WorkersEnd{}); }  ///< no worker runs, or they are being stopped
  /// Cancels the timer, so that io.run() can return.
  void cancel() { timer_.cancel(); }
  /// Whether the checkpoint signal was passed to any generation.
  [[nodiscard]] bool checkpoint_passed() const { return machine_.state.passed; }
  /// Whether it was due before cxxrun started.
  [[nodiscard]] bool checkpoint_late() const { return plan_.late; }
  /// Whether --time-limit, if only cxxrun enforces it, is reached or nearly so: another node may have been a little
  /// faster.
  [[nodiscard]] bool limit_reached() const;

 private:
  friend os::Machine<countdown::State, countdown::Event>;

  void happen(countdown::Event event) { machine_.feed(event, *this); }
  [[nodiscard]] EndPlan const& policy() const { return plan_; }
  static void say(Line const& line) { log(line.level, line.text); }
  static void stepped() {}
  void perform(countdown::Pass const& what);
  void perform(countdown::EndJob const& what);
  void perform(countdown::WakeAt const& what) {
    timer_.at(what.at, [this] { happen(countdown::Tick{}); });
  }

  EndPlan plan_;
  Supervisor& supervisor_;
  agent::Inbox& agent_;
  os::Timer timer_;
  // step(): launcher/facts/deadlines.cpp
  os::Machine<countdown::State, countdown::Event> machine_;
  std::set<pid_t> served_;  // workers of this generation that have had the signal
};

}  // namespace cxxrun::launcher
