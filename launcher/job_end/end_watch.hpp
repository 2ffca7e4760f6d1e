// EndWatch: the shell around deadlines.hpp: what slurm.conf says, one timer, the signal to the workers.
//
// Runs on the thread of the io_context given to it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <sys/types.h>

#include "launcher/facts/deadlines.hpp"
#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/machine.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

/// Nothing outside a job of Slurm's. Reads the file that SLURM_CONF names, at most 1 MiB of it; when it cannot be
/// read (a container, a cluster that hides it) Slurm's defaults stand.
[[nodiscard]] std::optional<SlurmConf> read_slurm_conf(Environment const& environment);

class EndWatch {
 public:
  struct Handlers {
    /// Passes a signal to the workers that catch it, but to none of `served`, to which it adds them; returns how many
    /// workers have not had it.
    std::function<std::size_t(int signal, std::set<pid_t>& served)> pass;
    std::function<void()> end;  ///< the time is up, and nobody else ends the job
  };
  /// Says at once what has no effect. `io` outlives it.
  EndWatch(boost::asio::io_context& io, Options const& options, Environment const& environment, Handlers handlers);

  /// From now on --time-limit counts down, for a job without workers too.
  void begin();
  void workers_run();
  void workers_end() { happen(countdown::WorkersEnd{}); }  ///< none runs, or they are being stopped
  /// No more timers, so that io.run() can return.
  void cancel() { timer_.cancel(); }
  /// Whether the checkpoint signal was passed to any generation.
  [[nodiscard]] bool checkpoint_passed() const { return machine_.state.passed; }
  /// Whether the limit that only we enforce is reached, or nearly: the clocks of two nodes differ a little.
  [[nodiscard]] bool limit_reached() const;

 private:
  friend os::Machine<countdown::State, countdown::Event>;

  void happen(countdown::Event event) { machine_.feed(event, *this); }
  [[nodiscard]] EndPlan const& policy() const { return plan_; }
  static void say(Line const& line) { log(line.level, line.text); }
  static void stepped() {}
  void perform(countdown::Pass const& what) {
    auto const missing = handlers_.pass(what.signal, served_);
    happen(countdown::Passed{missing, served_.size() + missing});
  }
  void perform(countdown::EndJob const& what);
  void perform(countdown::WakeAt const& what) {
    timer_.at(what.at, [this] { happen(countdown::Tick{}); });
  }

  EndPlan plan_;
  Handlers handlers_;
  os::Timer timer_;
  os::Machine<countdown::State, countdown::Event> machine_;
  std::set<pid_t> served_;
};

}  // namespace cxxrun::launcher
