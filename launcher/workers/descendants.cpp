#include "launcher/workers/descendants.hpp"

#include <algorithm>
#include <csignal>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/os/children.hpp"
#include "src/os/fd.hpp"
#include "src/os/process_info.hpp"

namespace cxxrun::launcher {
namespace {

void signal_group(pid_t group, int signal) {
  kill(-group, signal);
  if (signal != SIGKILL) {
    kill(-group, SIGCONT);
  }
}

bool contains(std::vector<pid_t> const& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

}  // namespace

void Descendants::signal_worker(pid_t worker, int signal) {
  signalled_.insert(worker);
  signal_group(worker, signal);
}

// A stranger is our child and not reaped, so its group exists and its number is not reused. The group is the
// workers' as long as it is in another session than ours: every worker began with setsid.
void Descendants::signal_strangers(std::vector<pid_t> const& workers, std::vector<pid_t> const& kept, int signal) {
  pid_t const own_session = getsid(0);
  for (pid_t const stranger : strangers(workers, kept)) {
    pid_t const group = getpgid(stranger);
    bool const foreign_group = group > 0 && getsid(stranger) != own_session;
    if (signal == SIGKILL) {
      kill(stranger, SIGKILL);
      if (foreign_group) {
        kill(-group, SIGKILL);
      }
    } else if (foreign_group && signalled_.insert(group).second) {
      signal_group(group, signal);
    }
  }
}

std::vector<pid_t> Descendants::strangers(std::vector<pid_t> const& workers, std::vector<pid_t> const& kept) const {
  if (!os::has_children()) {  // by far the most frequent answer, and cheap
    return {};
  }
  auto children = os::children_of(getpid());
  std::erase_if(children, [&](pid_t pid) {
    return contains(workers, pid) || abandoned_.contains(pid) || tended_.contains(pid) ||
           (!kept.empty() && contains(kept, getsid(pid)));
  });
  return children;
}

std::vector<std::string> Descendants::abandon_all(std::vector<pid_t> const& kept) {
  std::vector<std::string> lines;
  for (pid_t const pid : strangers(kept, kept)) {
    lines.push_back(os::describe_stuck(pid));
    abandoned_.insert(pid);
  }
  return lines;
}

bool forward_signal(pid_t pid, pid_t session, int signal) {
  // The pidfd first, then the checks, then the signal by pidfd: a pid reused in between is not hit.
  os::UniqueFd const process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process || getsid(pid) != session) {
    return false;
  }
  if (os::catches_signal(pid, signal)) {
    return syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0) == 0;
  }
  bool reached = false;
  for (pid_t const child : os::children_of(pid)) {
    reached = forward_signal(child, session, signal) || reached;
  }
  return reached;
}

}  // namespace cxxrun::launcher
