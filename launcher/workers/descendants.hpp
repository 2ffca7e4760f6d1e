// Descendants: sends signals to the processes of workers, and finds the processes that have escaped from them. Shell.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "src/base/core/exit_status.hpp"
#include "src/base/os/children.hpp"

namespace cxxrun::launcher {

/// A stranger is a child of this process that is not a worker: it has escaped from one. This process is a subreaper, so
/// a process that a worker has started becomes our child when its parent dies. Used by one thread.
class Descendants {
 public:
  /// Whether the processes of that session are left alone.
  using Spares = std::function<bool(pid_t session)>;

  using Programs = std::vector<os::HeldProcess>;

  /// Forgets which groups were signalled and which programs were asked. Called when a generation begins.
  void reset();

  /// Asks a worker to end. A worker that has not been reaped: sends the signal to its add_signal_targets(). One that
  /// has ended: to the programs that have_outlived() found. Also sends SIGCONT, because a stopped process cannot act on
  /// the signal.
  void ask(pid_t worker, int signal);
  /// SIGKILL to the process group that a worker leads.
  static void kill_group(pid_t worker);
  /// Called when the worker has been reaped. Whether programs behind it still run that handle the stop signal: those
  /// that ask() has signalled, or, if it died of a stop signal that somebody else sent, those in its session.
  [[nodiscard]] bool have_outlived(pid_t worker, ExitStatus const& status);
  /// Whether any of these programs still runs.
  [[nodiscard]] bool programs_run(pid_t worker) const;

  /// Signals the process groups of all strangers, each group once. SIGKILL goes to every stranger in each call.
  void signal_strangers(std::vector<pid_t> const& workers, Spares const& spares, int signal);
  /// Children that are not in `workers`, not in a spared session, not tended and not abandoned.
  [[nodiscard]] std::vector<pid_t> strangers(std::vector<pid_t> const& workers, Spares const& spares) const;

  /// Abandons every child that is not in a spared session. Returns one line about each.
  [[nodiscard]] std::vector<std::string> abandon_all(Spares const& spares);
  [[nodiscard]] std::vector<pid_t> abandoned() const { return {abandoned_.begin(), abandoned_.end()}; }
  void reaped(pid_t pid) {
    abandoned_.erase(pid);
    tended_.erase(pid);
  }
  /// A child that this process has started itself: it is not a stranger.
  void tend(pid_t pid) { tended_.insert(pid); }
  /// A tended child hangs: do not wait for it any more.
  void abandon(pid_t pid) { abandoned_.insert(pid); }

 private:
  [[nodiscard]] Programs left_by(pid_t worker, int signal) const;

  std::set<pid_t> signalled_;           // process groups
  std::map<pid_t, Programs> asked_;     // programs behind each worker that was asked
  std::map<pid_t, Programs> programs_;  // programs behind each worker that has ended
  std::set<pid_t> tended_;
  std::set<pid_t> abandoned_;  // survived SIGKILL, or hang
};

/// Passes a signal to `pid` if it catches it, else to its nearest descendants in `session` that do. Whether any process
/// got it.
bool forward_signal(pid_t pid, pid_t session, int signal);

}  // namespace cxxrun::launcher
