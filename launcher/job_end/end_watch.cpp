#include "launcher/job_end/end_watch.hpp"

#include <chrono>
#include <csignal>

#include "launcher/workers/supervisor.hpp"
#include "src/base/os/folder.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kConfBytes = std::size_t{1024} * 1024;

std::int64_t unix_now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::optional<SlurmConf> read_slurm_conf(Environment const& environment) {
  if (value_of(environment, "SLURM_JOB_ID").empty()) {
    return std::nullopt;
  }
  auto const path = value_of(environment, "SLURM_CONF");
  if (path.empty()) {
    return parse_slurm_conf("");
  }
  auto const beside = path.substr(0, path.find_last_of('/') + 1) + "cgroup.conf";
  return parse_slurm_conf(os::read_system_file(path, kConfBytes) + "\n" + os::read_system_file(beside, kConfBytes));
}

EndPlan make_end_plan(Options const& options, Environment const& environment) {
  SlurmTimes slurm;
  if (!value_of(environment, "SLURM_JOB_ID").empty()) {
    slurm = {value_of(environment, "SLURM_JOB_START_TIME"), value_of(environment, "SLURM_JOB_END_TIME")};
  }
  return plan_end(options.checkpoint_signal, options.time_limit, slurm, unix_now(), Clock::now(),
                  options.join.has_value());
}

void EndWatch::perform(countdown::Pass const& what) {
  auto const missing = supervisor_.ask_for_checkpoint(what.signal, served_);
  happen(countdown::Passed{missing, served_.size() + missing});
}

void EndWatch::perform(countdown::EndJob const& /*what*/) {
  log(Level::info, "--time-limit is reached: ending the job as SIGTERM does");
  agent_.feed(agent::EndSignal{SIGTERM, true, false, "at its --time-limit"});
}

void EndWatch::begin() {
  for (auto const& note : plan_.notes) {
    log(Level::warn, note);
  }
  happen(countdown::Tick{});
}

void EndWatch::workers_run(std::optional<rendezvous::JobEnd> const& told) {
  plan_ = adopt(std::move(plan_), told);
  served_.clear();
  happen(countdown::WorkersRun{});
}

bool EndWatch::limit_reached() const {
  return plan_.ours && Clock::now() + kClocksDiffer >= *plan_.end;
}

}  // namespace cxxrun::launcher
