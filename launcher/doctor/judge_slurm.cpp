#include <array>
#include <utility>

#include "launcher/doctor/judge.hpp"
#include "launcher/doctor/numbers.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::doctor {
namespace {

/// "30 sec" → 30.
std::optional<double> seconds(Facts const& facts, std::string const& key) {
  auto const text = value_of(facts, "slurm." + key);
  return number({{"s", text.substr(0, text.find(' '))}}, "s");
}

Finding slurm(Grade grade, std::string found, std::string remedy) {
  return {grade, "Slurm", std::move(found), std::move(remedy)};
}

void judge_tracking(Findings& found, Facts const& facts) {
  auto const tracks = value_of(facts, "slurm.ProctrackType");
  if (!tracks.empty() && tracks != "proctrack/cgroup") {
    found.push_back(slurm(Grade::warning, "ProctrackType=" + tracks,
                          "Slurm does not end what outlives its task, and its signals reach every process; "
                          "administrators: proctrack/cgroup. cxxrun ends its own workers either way"));
  }
  if (lower(value_of(facts, "slurm.SignalChildrenProcesses")) == "yes") {
    found.push_back(
        slurm(Grade::warning, "SignalChildrenProcesses=yes",
              "Slurm's signals reach every process, DataLoader helpers first: scancel --signal=USR1 kills what "
              "does not handle it; --checkpoint-signal USR1@120 asks the workers that do"));
  }
  if (lower(value_of(facts, "slurm.TaskPluginParam")).find("oomkillstep") != std::string::npos) {
    found.push_back(slurm(Grade::note, "TaskPluginParam=OOMKillStep",
                          "one process out of memory ends the whole step, cxxrun too, and --max-restarts cannot help; "
                          "srun --oom-kill-step=0 has only that process killed"));
  }
  auto const tasks = value_of(facts, "slurm.TaskPlugin");
  if (!tasks.empty() && tasks.find("cgroup") == std::string::npos) {
    found.push_back(slurm(Grade::note, "TaskPlugin=" + tasks,
                          "jobs on one node are not kept apart: memory and GPUs are shared by good manners; "
                          "administrators: task/cgroup, or use --exclusive"));
  } else if (lower(value_of(facts, "slurm.ConstrainDevices")) == "no" && number(facts, "gpu.devices").value_or(0) > 0) {
    found.push_back(
        slurm(Grade::note, "ConstrainDevices=no",
              "the GPUs of other jobs on this node can be opened, and CUDA_VISIBLE_DEVICES alone says which "
              "are yours: leave it as it is, or use --exclusive; administrators: ConstrainDevices=yes"));
  }
}

void judge_times(Findings& found, Facts const& facts) {
  if (auto const wait = seconds(facts, "KillWait"); wait && *wait < 30) {
    found.push_back(slurm(Grade::warning, "KillWait=" + whole(wait) + " s: from SIGTERM to SIGKILL at the end of a job",
                          "have checkpoints written before: --checkpoint-signal USR1@120"));
  }
  auto const unkillable = seconds(facts, "UnkillableStepTimeout");
  if (unkillable && *unkillable < 120) {
    found.push_back(slurm(Grade::note, "UnkillableStepTimeout=" + whole(unkillable) + " s",
                          "processes that write large core dumps or hang in a driver longer than that drain the node; "
                          "administrators: 180 or more"));
  }
  if (auto const lost = seconds(facts, "SlurmdTimeout"); lost && (*lost == 0 || *lost > 600)) {
    found.push_back(slurm(Grade::note, "SlurmdTimeout=" + whole(lost) + " s",
                          "so long does Slurm take a dead node for alive; cxxrun notices within --heartbeat-timeout"));
  }
}

/// The steps of a job with stepmgr are managed on its first node (slurm.conf(5), enable_stepmgr; since Slurm 24.05).
/// What becomes of them without it was seen on 26.05.5 (docs/evidence/slurm_releases.md).
void judge_step_manager(Findings& found, Facts const& facts) {
  auto const manager = value_of(facts, "slurm.step_manager");
  if (!manager.empty() && number(facts, "slurm.nodes").value_or(1) > 1) {
    bool const goes_on = value_of(facts, "slurm.no_kill") == "set";
    found.push_back(slurm(goes_on ? Grade::warning : Grade::note,
                          "the steps of this job are managed by " + manager + " (stepmgr)",
                          "once " + manager +
                              " is lost, srun does not end, no step can be started and none is signalled, "
                              "though cxxrun goes on elsewhere: scancel the job when its verdict.json is there"));
  }
}

std::string settings_error(Facts const& facts) {
  if (auto error = value_of(facts, "slurm.unasked"); !error.empty()) {
    return error;
  }
  auto const hung = value_of(facts, "slurm.hung");
  return hung.empty() ? value_of(facts, "slurm.error") : "scontrol did not answer within " + hung;
}

/// A line for which a child was needed, where none could be started.
Finding unless_unasked(Facts const& facts, Finding const& finding) {
  static constexpr std::array kAbout{std::pair{"names", "name"},   std::pair{"GPUs", "gpu"}, std::pair{"NCCL", "nccl"},
                                     std::pair{"directory", "fs"}, std::pair{"logs", "log"}, std::pair{"home", "home"},
                                     std::pair{"Python", "python"}};
  for (auto const& [line, child] : kAbout) {
    auto const error = value_of(facts, std::string(child) + ".unasked");
    if (finding.about == line && !error.empty()) {
      return {Grade::note, finding.about, "not looked at: no process could be started", ""};
    }
  }
  return finding;
}

}  // namespace

Findings judge_slurm(Facts const& facts) {
  if (auto const trouble = value_of(facts, "slurm.trouble"); !trouble.empty()) {
    return {slurm(Grade::failure, trouble, "let all of Slurm's variables through to the container or shell")};
  }
  if (value_of(facts, "slurm.job").empty()) {
    return {slurm(Grade::note, "not in a job", "in one: srun cxxrun --doctor")};
  }
  std::string const place = "job " + value_of(facts, "slurm.job") +
                            (value_of(facts, "slurm.step").empty() ? "" : ", step " + value_of(facts, "slurm.step"));
  Findings found;
  if (auto const note = value_of(facts, "slurm.note"); !note.empty()) {
    found.push_back(slurm(Grade::warning, place, note));
  } else if (auto const remark = value_of(facts, "slurm.remark"); !remark.empty()) {
    found.push_back(slurm(Grade::note, place, remark));
  } else if (value_of(facts, "slurm.step").empty()) {
    found.push_back(slurm(Grade::warning, place + ", but no step", "start it with srun: srun cxxrun --doctor"));
  }
  if (auto const error = settings_error(facts); !error.empty()) {
    found.push_back(slurm(Grade::note, "settings not read: " + error,
                          "cxxrun needs no scontrol; only --requeue does (in a container: bind it)"));
  }
  judge_tracking(found, facts);
  judge_times(found, facts);
  judge_step_manager(found, facts);
  if (number(facts, "slurm.nodes").value_or(1) > 1 && value_of(facts, "slurm.no_kill") != "set") {
    found.push_back(
        slurm(Grade::note, "--no-kill is not known to be set",
              "for jobs that go on without a lost node give --no-kill to sbatch and to srun; export SLURM_NO_KILL=set "
              "before srun says the same, and silences this line"));
  }
  if (found.empty()) {
    found.push_back(slurm(Grade::fine, place, ""));
  }
  return found;
}

Findings judge(Facts const& facts) {
  Findings all = {judge_names(facts),      judge_ports(facts),         judge_clock(facts),     judge_kernel(facts),
                  judge_cpus(facts),       judge_memory(facts),        judge_shm(facts),       judge_descriptors(facts),
                  judge_processes(facts),  judge_locked_memory(facts), judge_gpus(facts),      judge_nccl(facts),
                  judge_interfaces(facts), judge_python(facts),        judge_directory(facts), judge_logs(facts),
                  judge_home(facts)};
  for (auto& each : all) {
    each = unless_unasked(facts, each);
  }
  auto const lookups = judge_lookups(facts);
  all.insert(all.begin() + 1, lookups.begin(), lookups.end());
  for (auto& each : judge_slurm(facts)) {
    all.push_back(std::move(each));
  }
  return all;
}

}  // namespace cxxrun::launcher::doctor
