#include "launcher/workers/death_watch.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/report/failure_signs.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/process_info.hpp"

namespace cxxrun::launcher {
namespace {

/// Neither a stop nor a kill of cxxrun's explains this failure.
bool unexplained(rendezvous::WorkerExit const& exit) {
  return !exit.status.ok() && !exit.ours && exit.hung.empty() && exit.status.kind != ExitStatus::Kind::not_started;
}

bool killed(rendezvous::WorkerExit const& exit) {
  return unexplained(exit) && exit.status == ExitStatus::signalled(SIGKILL);
}

/// Whether it has had all the CPU time of its hard limit. Then the kernel sends SIGKILL, also where the soft limit is
/// the same, as `ulimit -t` sets it.
bool used_up(Millis busy, Limit const& seconds) {
  constexpr Millis kTick{100};  // the kernel counts in ticks, the more exact figure may be less
  return seconds.hard && static_cast<std::uint64_t>((busy + kTick).count() / 1000) >= *seconds.hard;
}

/// The worker's last output, and the line that says why: that line may be older.
std::string output_of(rendezvous::WorkerExit const& exit) {
  return exit.stderr_tail + "\n" + exit.told;
}

}  // namespace

void DeathWatch::begin(std::uint32_t kills) {
  kills_before_ = kills;
  before_ = group_.read();
  static_cast<void>(log_.read_new());
  gpu_ = {};
  paths_.clear();
  read_ = false;
}

std::string DeathWatch::taint() {
  auto const all = since(first_, group_.read());
  bool const of_step = all.reached && is_of_slurm(all.reached->group);
  if (all.kills.value_or(0) == 0 || !of_step || std::exchange(taint_told_, true)) {
    return {};
  }
  return "the kernel has killed a process for the memory limit of " + group_name(all.reached->group) +
         ": for Slurm the step is OUT_OF_MEMORY and srun will exit with 1, also when the job succeeds now";
}

void DeathWatch::read() {
  if (std::exchange(read_, true)) {
    return;
  }
  memory_ = since(before_, group_.read());
  limits_ = os::worker_limits();
  if (auto found = explain_xids(log_.read_new()); gpu_.cause.empty()) {
    gpu_ = std::move(found);
  }
}

void DeathWatch::explain(DeadWorker const& which, std::vector<DeadWorker> const& all, std::uint32_t kills) {
  auto& exit = *which.exit;
  if (!unexplained(exit)) {
    return;
  }
  read();
  DeathFacts facts;
  facts.status = exit.status;
  facts.pid = exit.pid;
  facts.lease_over = kills != kills_before_;
  facts.peak = which.peak;
  facts.time_used_up = used_up(which.busy, limits_.cpu_time);
  facts.killed = 0;
  for (auto const& other : all) {
    if (killed(*other.exit)) {
      ++facts.killed;
      facts.larger += other.peak > which.peak ? 1U : 0U;
    }
  }
  facts.memory = memory_;
  facts.has_stdin = which.has_stdin;
  facts.said = output_of(exit);
  facts.paths = paths_;
  facts.core_pattern = exit.status.core_dumped ? os::read_text("/proc/sys/kernel/core_pattern") : "";
  facts.core_uses_pid = exit.status.core_dumped && trim(os::read_text("/proc/sys/kernel/core_uses_pid")) == "1";
  facts.limit = explain_limits(facts.said, limits_);
  facts.gpu = gpu_;
  auto explanation = launcher::explain(facts);
  exit.cause = std::move(explanation.cause);
  exit.advice = std::move(explanation.advice);
  exit.of_job = explanation.of_job;
}

bool DeathWatch::needs_probe(std::vector<DeadWorker> const& all) {
  return std::ranges::any_of(all, [](DeadWorker const& dead) {
    return unexplained(*dead.exit) && launcher::needs_probe(dead.exit->status, output_of(*dead.exit));
  });
}

void DeathWatch::probed(std::vector<std::string> const& paths, std::vector<os::SeenPath> const& seen) {
  paths_.clear();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    paths_.push_back(i < seen.size() ? PathFacts{paths[i], true, seen[i].error, seen[i].full} : PathFacts{paths[i]});
    if (i >= seen.size()) {
      break;  // the probe hangs at this path; nothing is known about later ones
    }
  }
}

}  // namespace cxxrun::launcher
