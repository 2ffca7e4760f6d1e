// Descendants: the children of this process that are no workers, that is, processes that escaped from a worker.
#pragma once

#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cxxrun::launcher {

/// Signals what the process groups of the workers do not hold. This process is a subreaper, so whatever escapes from
/// a worker becomes a child of ours when its parent dies. One thread.
class Descendants {
 public:
  /// Forgets which groups were signalled; a new generation begins.
  void reset() { signalled_.clear(); }

  /// Signals the process group that a live, unreaped worker leads. Stopped processes are continued, or they could
  /// not act on it.
  void signal_worker(pid_t worker, int signal);
  /// Signals the groups of all strangers that were not signalled before; SIGKILL goes to all, again and again.
  void signal_strangers(std::vector<pid_t> const& workers, std::vector<pid_t> const& kept, int signal);
  /// Children that are neither in `workers`, nor in the session of a worker in `kept`, nor tended, nor abandoned.
  [[nodiscard]] std::vector<pid_t> strangers(std::vector<pid_t> const& workers, std::vector<pid_t> const& kept) const;

  /// Gives up on every child there is now but for those in `kept` and their sessions; one line about each.
  [[nodiscard]] std::vector<std::string> abandon_all(std::vector<pid_t> const& kept);
  [[nodiscard]] std::vector<pid_t> abandoned() const { return {abandoned_.begin(), abandoned_.end()}; }
  void reaped(pid_t pid) {
    abandoned_.erase(pid);
    tended_.erase(pid);
  }
  /// A child of ours that no worker has started: no stranger.
  void tend(pid_t pid) { tended_.insert(pid); }

 private:
  std::set<pid_t> signalled_;  // process groups
  std::set<pid_t> tended_;
  std::set<pid_t> abandoned_;  // survived SIGKILL in an earlier generation
};

/// Passes a signal to `pid` if it catches it, else to the nearest descendants in the session `session` that do; whether
/// anybody did.
bool forward_signal(pid_t pid, pid_t session, int signal);

}  // namespace cxxrun::launcher
