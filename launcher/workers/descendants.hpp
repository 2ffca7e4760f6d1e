// Descendants: which processes a signal for a worker goes to, and the children of this process that are no workers,
// that is, processes that escaped from a worker. Shell.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "src/base/core/exit_status.hpp"
#include "src/base/os/held_process.hpp"

namespace cxxrun::launcher {

/// This process is a subreaper, so whatever escapes from a worker becomes a child of ours when its parent dies. One
/// thread.
class Descendants {
 public:
  /// Whether what runs in that session is left alone.
  using Spares = std::function<bool(pid_t session)>;

  using Programs = std::vector<os::HeldProcess>;

  /// Forgets which groups were signalled and who was asked; a new generation begins.
  void reset();

  /// Asks a worker to end that is not reaped: whom_to_ask() says which of its processes. One that has ended: the
  /// programs that have_outlived() found. Stopped processes of its group are continued, or they could not act on it.
  void ask(pid_t worker, int signal);
  /// SIGKILL to the process group that a worker leads.
  static void kill_group(pid_t worker);
  /// Called when that worker has been reaped: whether programs behind it run that handle the signal. Those that were
  /// asked; or, if it has died of an ending signal that somebody else sent, those in its session.
  [[nodiscard]] bool have_outlived(pid_t worker, ExitStatus const& status);
  /// Whether any of those runs.
  [[nodiscard]] bool programs_run(pid_t worker) const;

  /// Signals the groups of all strangers that were not signalled before; SIGKILL goes to all, again and again.
  void signal_strangers(std::vector<pid_t> const& workers, Spares const& spares, int signal);
  /// Children that are not in `workers`, nor in a session that is spared, nor tended, nor abandoned.
  [[nodiscard]] std::vector<pid_t> strangers(std::vector<pid_t> const& workers, Spares const& spares) const;

  /// Gives up on every child there is now but for those in sessions that are spared; one line about each.
  [[nodiscard]] std::vector<std::string> abandon_all(Spares const& spares);
  [[nodiscard]] std::vector<pid_t> abandoned() const { return {abandoned_.begin(), abandoned_.end()}; }
  void reaped(pid_t pid) {
    abandoned_.erase(pid);
    tended_.erase(pid);
  }
  /// A child of ours that no worker has started: no stranger.
  void tend(pid_t pid) { tended_.insert(pid); }
  /// One that was tended hangs: nobody waits for it any more.
  void abandon(pid_t pid) { abandoned_.insert(pid); }

 private:
  [[nodiscard]] Programs left_by(pid_t worker, int signal) const;

  std::set<pid_t> signalled_;           // process groups
  std::map<pid_t, Programs> asked_;     // behind a worker that was asked
  std::map<pid_t, Programs> programs_;  // behind a worker that has ended
  std::set<pid_t> tended_;
  std::set<pid_t> abandoned_;  // survived SIGKILL in an earlier generation
};

/// Passes a signal to `pid` if it catches it, else to the nearest descendants in the session `session` that do; whether
/// anybody did.
bool forward_signal(pid_t pid, pid_t session, int signal);

}  // namespace cxxrun::launcher
