#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <utility>

#include <boost/asio/post.hpp>

#include "launcher/logs/log_file.hpp"
#include "launcher/report/line_kinds.hpp"
#include "launcher/report/report.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher {

namespace asio = boost::asio;

constexpr std::size_t kErrorFileBytes = std::size_t{1} << 20;  // with the stack of each thread, if it has them
constexpr std::chrono::seconds kDrainDeadline{5};              // only a log's file system that hangs takes longer
constexpr std::chrono::seconds kProbeDeadline{2};

void Supervisor::perform(ReportEnded const& /*what*/) {
  left_.clear();
  if (auto const killed = std::exchange(killed_, {}); !killed.empty()) {
    log(state_.stop_ordered ? Level::info : Level::warn, killed_line(killed));
  }
  ++ending_.number;
  timer_.after(kDrainDeadline, [this] {
    log(Level::warn, "the last lines of a worker are missing: its log file takes too long");
    ending_.drains = 1;
    drained();
  });
  ending_.drains = 1;  // our own hold, so that the count reaches zero once
  for (auto& member : members_) {
    auto const& worker = state_.workers[member.exit.local_rank];
    if (worker.life == GroupWorker::Life::parked) {
      continue;  // it goes on writing
    }
    // One that was given up on has had no exit to report; `ended` counts it as killed by us.
    member.exit.status = worker.status;
    member.exit.ours = worker.ours;
    for (auto const stream : std::exchange(member.streams, {})) {
      ++ending_.drains;
      drain(stream, member.exit.local_rank, member.stderr_stream == stream);
    }
  }
  hear_imports(std::any_of(members_.begin(), members_.end(), [](Member const& each) {
    return !each.exit.status.ok() && !each.exit.ours;  // there will be others
  }));
  drained();
}

// The callback comes on the pump's thread, which must not own us even for a moment: it only posts.
void Supervisor::drain(std::uint64_t stream, std::uint32_t local_rank, bool keep) {
  pump_.drain(stream, true,
              [&context = io_, weak = weak_from_this(), number = ending_.number, local_rank, keep](LastWords words) {
                asio::post(context, [weak, number, local_rank, keep, words = std::move(words)] {
                  if (auto const self = weak.lock();
                      self && self->ending_.number == number && self->ending_.drains > 0) {
                    auto& exit = self->members_[local_rank].exit;
                    if (!words.told.empty() && (keep || exit.told.empty())) {
                      exit.told = words.told;
                    }
                    if (keep) {
                      exit.stderr_tail = words.tail;
                      exit.role = rendezvous::role_of(exit, words.role);
                    }
                    self->drained();
                  }
                });
              });
}

void Supervisor::drained() {
  if (--ending_.drains > 0) {
    return;
  }
  timer_.cancel();
  deaths_.look_again();
  if (told_ || !DeathWatch::needs_probe(dead_workers()) || !begin_probe()) {
    tell_ended();
  }
}

std::vector<DeadWorker> Supervisor::dead_workers() {
  std::vector<DeadWorker> dead;
  dead.reserve(members_.size());
  for (auto& member : members_) {  // of one that lives the exit is that of a success as yet
    dead.push_back({&member.exit, member.peak, member.has_stdin});
  }
  return dead;
}

/// Looks at the paths that the workers need in a child, for kProbeDeadline at most: then tell_ended() follows.
bool Supervisor::begin_probe() {
  std::set<std::string> paths{".", "/dev/shm", os::variable("TMPDIR").empty() ? "/tmp" : os::variable("TMPDIR")};
  for (auto const& member : members_) {
    std::copy_if(member.paths.begin(), member.paths.end(), std::inserter(paths, paths.end()),
                 [](std::string const& path) { return path.find('/') != std::string::npos; });
  }
  ending_.probed = {paths.begin(), paths.end()};
  ending_.probe = os::start_probe(ending_.probed);
  if (!ending_.probe) {
    return false;
  }
  auto const done = [weak = weak_from_this(), number = ending_.number] {
    if (auto const self = weak.lock()) {
      self->probe_ended(number);
    }
  };
  tend(ending_.probe->pid, done);
  probe_timer_.after(kProbeDeadline, [this, done, pid = ending_.probe->pid] {
    kill(pid, SIGKILL);
    descendants_.abandon(pid);
    done();
  });
  return true;
}

void Supervisor::probe_ended(std::uint64_t number) {
  if (ending_.number != number || !ending_.probe) {
    return;
  }
  probe_timer_.cancel();
  deaths_.probed(ending_.probed, os::read_probe(*std::exchange(ending_.probe, std::nullopt)));
  tell_ended();
}

// Those that were parked when their generation ended have no exit in it, and none later.
void Supervisor::tell_ended() {
  std::vector<rendezvous::WorkerExit> exits;
  exits.reserve(members_.size());
  bool const again = std::exchange(told_, true);
  auto const dead = dead_workers();
  for (auto& member : members_) {
    if (again || state_.workers[member.exit.local_rank].life == GroupWorker::Life::parked) {
      continue;
    }
    if (!member.exit.status.ok() && !member.error_file.empty()) {
      auto& exit = member.exit;
      exit.error_file = error_file_message(read_worker_file(member.error_file, kErrorFileBytes));
      if (exit.told.empty()) {
        exit.told = exit.error_file;
        exit.role = rendezvous::role_of(exit, telling(exit.told).role);
      }
    }
    deaths_.explain(dead[member.exit.local_rank], dead);
    exits.push_back(member.exit);
  }
  bool const waiting = state_.phase == GroupPhase::parked;
  bool const lacks = launcher::lacks(state_);
  if (!waiting) {
    members_.clear();
  }
  active_ = false;
  asio::post(io_, [weak = weak_from_this(), number = generation_, exits = std::move(exits),
                   unkillable = std::exchange(ending_.unkillable, {}), waiting, lacks] {
    if (auto const self = weak.lock(); self && self->handlers_.ended) {
      self->handlers_.ended(number, exits, unkillable, waiting, lacks);
    }
  });
}

}  // namespace cxxrun::launcher
