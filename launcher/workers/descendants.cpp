#include "launcher/workers/descendants.hpp"

#include <algorithm>
#include <csignal>
#include <unistd.h>
#include <utility>

#include "launcher/workers/whom_to_ask.hpp"
#include "src/base/core/signal_info.hpp"
#include "src/base/os/children.hpp"
#include "src/base/os/process_info.hpp"

namespace cxxrun::launcher {
namespace {

constexpr int kListings = 20;

void signal_group(pid_t group, int signal) {
  kill(-group, signal);
  if (signal != SIGKILL) {
    kill(-group, SIGCONT);
  }
}

bool contains(std::vector<pid_t> const& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

/// Those whom a signal is for, held so that no reused pid is hit.
struct Held {
  std::map<pid_t, os::HeldProcess> processes;
  WhomToAsk who;
};

// Adds that child of ours and those behind it.
void hold(pid_t first, int signal, Held& held) {
  auto const look = [&](pid_t pid, pid_t parent) -> std::optional<Seen> {
    auto process = os::HeldProcess::hold(pid);
    auto const stat = process ? os::read_stat(pid) : std::nullopt;
    if (!stat || stat->parent != parent || stat->state == 'Z' || stat->state == 'X') {
      return std::nullopt;
    }
    held.processes.insert_or_assign(pid, *std::move(process));
    return Seen{os::handles_signal(pid, signal), only_waits(os::executable_of(pid))};
  };
  whom_to_ask(first, getpid(), look, os::children_of, held.who);
}

Descendants::Programs programs_of(Held& held) {
  Descendants::Programs programs;
  for (pid_t const pid : held.who.programs) {
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
  Held held;
  hold(worker, signal, held);
  for (pid_t const pid : held.who.all) {
    held.processes.at(pid).send(signal);
    held.processes.at(pid).send(SIGCONT);
  }
  if (held.who.all.empty()) {  // no descriptor is left
    kill(worker, signal);
  }
  kill(-worker, SIGCONT);
  held.processes.erase(worker);
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

// What it has left in its session is ours by now. Between two of its processes that end one after the other nothing is
// overlooked: a listing that has not changed was complete. One that forks for ever does not hold us for ever.
Descendants::Programs Descendants::left_by(pid_t worker, int signal) const {
  auto const not_its_own = [worker](pid_t session) { return session != worker; };
  Held held;
  std::vector<pid_t> before;
  auto left = strangers({}, not_its_own);
  for (int i = 0; left != before && i < kListings; ++i) {
    for (pid_t const orphan : left) {
      hold(orphan, signal, held);
    }
    before = std::exchange(left, strangers({}, not_its_own));
  }
  return programs_of(held);
}

bool Descendants::programs_run(pid_t worker) const {
  auto const left = programs_.find(worker);
  return left != programs_.end() &&
         std::any_of(left->second.begin(), left->second.end(), [](auto const& program) { return program.runs(); });
}

// A stranger is our child and not reaped, so its group exists and its number is not reused. The group is the
// workers' as long as it is in another session than ours: every worker began with setsid. One that a tended process has
// forked for a worker may still be in the group of that.
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
  if (!os::has_children()) {  // by far the most frequent answer, and cheap
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
