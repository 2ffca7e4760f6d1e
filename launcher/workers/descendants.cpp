#include "launcher/workers/descendants.hpp"

#include <algorithm>
#include <csignal>
#include <unistd.h>
#include <utility>

#include "launcher/workers/worker_processes.hpp"
#include "src/base/os/process_info.hpp"

namespace cxxrun::launcher {
namespace {

constexpr int kMostListings = 20;

void signal_group(pid_t group, int signal) {
  kill(-group, signal);
  if (signal != SIGKILL) {
    kill(-group, SIGCONT);
  }
}

bool contains(std::vector<pid_t> const& pids, pid_t pid) {
  return std::ranges::find(pids, pid) != pids.end();
}

/// The targets of a signal, held so that the signal cannot hit a process that has reused a pid.
struct HeldTargets {
  std::map<pid_t, os::HeldProcess> processes;
  SignalTargets targets;
};

/// Adds the targets among `child`, a child of this process, and its descendants.
void hold_targets(pid_t child, int signal, HeldTargets& held) {
  auto const inspect = [&](pid_t pid, pid_t parent) -> std::optional<SignalResponse> {
    auto process = os::HeldProcess::hold(pid);
    auto const stat = process ? os::read_stat(pid) : std::nullopt;
    if (!stat || stat->parent != parent || stat->state == 'Z' || stat->state == 'X') {
      return std::nullopt;
    }
    held.processes.insert_or_assign(pid, *std::move(process));
    return SignalResponse{os::handles_signal(pid, signal), only_waits(os::executable_of(pid))};
  };
  add_signal_targets(child, getpid(), inspect, os::children_of, held.targets);
}

Descendants::Programs programs_of(HeldTargets& held) {
  Descendants::Programs programs;
  for (pid_t const pid : held.targets.programs) {
    if (auto process = held.processes.extract(pid)) {
      programs.push_back(std::move(process.mapped()));
    }
  }
  return programs;
}

}  // namespace

void Descendants::reset() {
  signalled_.clear();
  asked_.clear();
  programs_.clear();
}

void Descendants::ask(pid_t worker, int signal) {
  if (auto const left = programs_.find(worker); left != programs_.end()) {
    for (auto const& program : left->second) {
      program.send(signal);
      program.send(SIGCONT);
    }
    return;
  }
  HeldTargets held;
  hold_targets(worker, signal, held);
  for (pid_t const pid : held.targets.all) {
    held.processes.at(pid).send(signal);
    held.processes.at(pid).send(SIGCONT);
  }
  if (held.targets.all.empty()) {  // nothing could be inspected; unreaped, the worker still owns its pid
    kill(worker, signal);
  }
  kill(-worker, SIGCONT);
  held.processes.erase(worker);  // only the programs behind it can outlive it
  asked_[worker] = programs_of(held);
}

void Descendants::kill_group(pid_t worker) {
  signal_group(worker, SIGKILL);
}

bool Descendants::have_outlived(pid_t worker, ExitStatus const& status) {
  bool const died_of_it = status.kind == ExitStatus::Kind::signalled && asks_to_end(status.value);
  if (auto asked = asked_.extract(worker)) {
    programs_[worker] = std::move(asked.mapped());
  } else if (died_of_it) {
    programs_[worker] = left_by(worker, status.value);
  }
  return programs_run(worker);
}

// The processes in the dead worker's session are our children by now. They may end while they are listed, and their
// own children then become ours: the list is repeated until it does not change. The limit is for a process that forks
// for ever.
Descendants::Programs Descendants::left_by(pid_t worker, int signal) const {
  auto const not_its_own = [worker](pid_t session) { return session != worker; };
  HeldTargets held;
  std::vector<pid_t> before;
  auto left = strangers({}, not_its_own);
  for (int i = 0; left != before && i < kMostListings; ++i) {
    for (pid_t const orphan : left) {
      hold_targets(orphan, signal, held);
    }
    before = std::exchange(left, strangers({}, not_its_own));
  }
  return programs_of(held);
}

bool Descendants::programs_run(pid_t worker) const {
  auto const left = programs_.find(worker);
  return left != programs_.end() &&
         std::ranges::any_of(left->second, [](auto const& program) { return program.runs(); });
}

// A stranger is an unreaped child of ours, so its process group exists and the group's number is not reused. A group in
// another session than ours belongs to workers, because every worker starts with setsid. The exception: a process that
// the warm Python, a tended child, has forked for a worker may still be in the warm Python's group.
void Descendants::signal_strangers(std::vector<pid_t> const& workers, Spares const& spares, int signal) {
  pid_t const own_session = getsid(0);
  for (pid_t const stranger : strangers(workers, spares)) {
    pid_t const group = getpgid(stranger);
    bool const foreign_group = group > 0 && getsid(stranger) != own_session && !tended_.contains(group);
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

std::vector<pid_t> Descendants::strangers(std::vector<pid_t> const& workers, Spares const& spares) const {
  if (!os::has_children()) {  // cheap, and by far the most frequent case
    return {};
  }
  auto children = os::children_of(getpid());
  std::erase_if(children, [&](pid_t pid) {
    return contains(workers, pid) || abandoned_.contains(pid) || tended_.contains(pid) || spares(getsid(pid));
  });
  return children;
}

std::vector<std::string> Descendants::abandon_all(Spares const& spares) {
  std::vector<std::string> lines;
  for (pid_t const pid : strangers({}, spares)) {
    lines.push_back(os::describe_stuck(pid));
    abandoned_.insert(pid);
  }
  return lines;
}

bool forward_signal(pid_t pid, pid_t session, int signal) {
  auto const process = os::HeldProcess::hold(pid);
  if (!process || getsid(pid) != session) {
    return false;
  }
  if (os::catches_signal(pid, signal)) {
    return process->send(signal);
  }
  bool reached = false;
  for (pid_t const child : os::children_of(pid)) {
    reached = forward_signal(child, session, signal) || reached;
  }
  return reached;
}

}  // namespace cxxrun::launcher
