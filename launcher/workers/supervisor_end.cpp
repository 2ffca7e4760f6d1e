#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <utility>

#include <boost/asio/post.hpp>

#include "launcher/logs/log_file.hpp"
#include "launcher/report/line_kinds.hpp"
#include "launcher/report/report_json.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/base/os/helper_children.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kDrainDeadline{5};  // exceeded only when a log's file system hangs
constexpr std::chrono::seconds kProbeDeadline{2};

}  // namespace

void Supervisor::perform(ReportEnded const& /*what*/) {
  left_.clear();
  if (auto const killed = std::exchange(killed_, {}); !killed.empty()) {
    log(state_.stop_ordered ? Level::info : Level::warn, killed_line(killed));
  }
  timer_.cancel();
  if (!std::exchange(ending_.due, true)) {
    ++ending_.number;
    ending_.drains = 0;
    for (auto& member : members_) {
      member.has_parked = state_.workers[member.exit.local_rank].life == GroupWorker::Life::parked;
    }
  }
  drain_timer_.after(kDrainDeadline, [this] {
    log(Level::warn, "the last lines of a worker are missing: writing its log file takes too long");
    ending_.drains = 1;
    on_drained();
  });
  ++ending_.drains;  // held by this function, so that the count reaches zero only once
  for (auto& member : members_) {
    auto const& worker = state_.workers[member.exit.local_rank];
    if (worker.life == GroupWorker::Life::parked) {
      continue;  // a parked worker goes on writing
    }
    // An unkillable worker has had no ReportExit; it counts as killed by us in the end.
    member.exit.status = worker.status;
    member.exit.ours = worker.ours;
    for (auto const stream : std::exchange(member.streams, {})) {
      ++ending_.drains;
      drain(stream, member.exit.local_rank, member.stderr_stream == stream);
    }
  }
  read_imports(std::ranges::any_of(members_, [](Member const& each) {
    return !each.exit.status.ok() && !each.exit.ours;  // a failure: the workers will be started again
  }));
  on_drained();
}

// After an earlier end that is still due, both name some.
void Supervisor::perform(ReportUnkillable const& /*what*/) {
  auto const more = descendants_.abandon_all(spared());
  ending_.unkillable.insert(ending_.unkillable.end(), more.begin(), more.end());
}

// The callback runs on the pump's thread. It only posts: that thread must not own the Supervisor even for a moment.
void Supervisor::drain(std::uint64_t stream, std::uint32_t local_rank, bool is_stderr) {
  pump_.drain(
      stream, true,
      [&context = io_, weak = weak_from_this(), number = ending_.number, local_rank, is_stderr](LastWords words) {
        asio::post(context, [weak, number, local_rank, is_stderr, words = std::move(words)] {
          if (auto const self = weak.lock(); self && self->ending_.number == number && self->ending_.drains > 0) {
            auto& exit = self->members_[local_rank].exit;
            if (!words.told.empty() && (is_stderr || exit.told.empty())) {
              exit.told = words.told;
            }
            if (is_stderr) {
              exit.stderr_tail = words.tail;
              exit.role = rendezvous::role_of(exit, words.role);
            }
            self->on_drained();
          }
        });
      });
}

void Supervisor::on_drained() {
  if (--ending_.drains > 0) {
    return;
  }
  drain_timer_.cancel();
  deaths_.refresh();
  if (ending_.probe) {
    return;  // report_ended() follows
  }
  if (reported_ || !DeathWatch::needs_probe(dead_workers()) || !start_probe()) {
    report_ended();
  }
}

std::vector<DeadWorker> Supervisor::dead_workers() {
  std::vector<DeadWorker> dead;
  dead.reserve(members_.size());
  for (auto& member : members_) {  // the exit of a living worker still has the status of a success
    dead.push_back({&member.exit, member.peak, member.busy, member.has_stdin});
  }
  return dead;
}

/// Probes the paths that the workers need, in a child that has kProbeDeadline; report_ended() follows. False: the probe
/// could not be started.
bool Supervisor::start_probe() {
  std::set<std::string> paths{".", "/dev/shm", os::variable("TMPDIR").empty() ? "/tmp" : os::variable("TMPDIR")};
  for (auto const& member : members_) {
    std::ranges::copy_if(member.paths, std::inserter(paths, paths.end()),
                         [](std::string const& path) { return path.find('/') != std::string::npos; });
  }
  ending_.probed = {paths.begin(), paths.end()};
  ending_.probe = os::start_probe(ending_.probed);
  if (!ending_.probe) {
    return false;
  }
  auto const done = [weak = weak_from_this(), number = ending_.number] {
    if (auto const self = weak.lock()) {
      self->on_probe_ended(number);
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

void Supervisor::on_probe_ended(std::uint64_t number) {
  if (ending_.number != number || !ending_.probe) {
    return;
  }
  probe_timer_.cancel();
  deaths_.probed(ending_.probed, os::read_probe(*std::exchange(ending_.probe, std::nullopt)));
  report_ended();
}

void Supervisor::report_ended() {
  bool const waiting = state_.phase == GroupPhase::parked;
  if (ending_.drains > 0 || (!waiting && state_.phase != GroupPhase::ended)) {
    return;  // waiting workers are being stopped: ReportEnded comes again
  }
  ending_.due = false;
  std::vector<rendezvous::WorkerExit> exits;
  exits.reserve(members_.size());
  bool const again = std::exchange(reported_, true);
  auto const dead = dead_workers();
  for (auto& member : members_) {
    if (again || member.has_parked) {
      continue;
    }
    if (!member.exit.status.ok() && !member.error_file.empty()) {
      auto& exit = member.exit;
      exit.error_file = error_file_message(read_error_file(member.error_file));
      if (exit.told.empty()) {
        exit.told = exit.error_file;
        exit.role = rendezvous::role_of(exit, meaning_of(exit.told).role);
      }
    }
    deaths_.explain(dead[member.exit.local_rank], dead, inbox_.parent_kills());
    exits.push_back(member.exit);
  }
  bool const lacks = launcher::lacks(state_);
  if (!waiting) {
    members_.clear();
  }
  active_ = false;
  asio::post(io_, [weak = weak_from_this(), number = generation_, exits = std::move(exits),
                   unkillable = std::exchange(ending_.unkillable, {}), waiting, lacks] {
    if (auto const self = weak.lock()) {
      self->inbox_.on_generation_ended(number, exits, unkillable, waiting, lacks);
    }
  });
}

}  // namespace cxxrun::launcher
