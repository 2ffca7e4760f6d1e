#include "launcher/doctor/judge.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "src/base/core/endpoint.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::doctor {
namespace {

// ---- names

constexpr double kSlowName = 2000;  // ms

std::string short_name(std::string const& name) {
  return lower(name.substr(0, name.find('.')));
}

/// Adds a warning if getent ("KEY.getent") resolves the name differently from cxxrun ("KEY.usable").
void compare_lookups(Findings& found, Facts const& facts, std::string const& name, std::string const& key) {
  auto const usable = value_of(facts, key + ".usable");
  auto const getent = value_of(facts, key + ".getent");
  if (!usable.empty() && !getent.empty() && usable != getent) {
    found.push_back({Grade::warning, "names",
                     name + " resolves to " + usable + " in cxxrun, but to " + getent + " in getent",
                     "the two read different sources: compare /etc/nsswitch.conf and the container's /etc/hosts"});
  }
}

Finding judge_names(Facts const& facts) {
  auto const own = value_of(facts, "name.own");
  auto const addresses = value_of(facts, "name.addresses");
  auto const unknown = value_of(facts, "name.unknown");
  bool const several = number(facts, "nodes").value_or(1) > 1;
  // A single node needs no name: it reaches itself by loopback. In a job that was given addresses only gloo looks up
  // names.
  auto const grade = !several                                   ? Grade::note
                     : value_of(facts, "name.needless").empty() ? Grade::failure
                                                                : Grade::warning;
  if (!unknown.empty()) {
    return {grade, "names", "unknown here: " + unknown,
            "add them to DNS or /etc/hosts of this node, or give an address with --rdzv-endpoint"};
  }
  if (facts.contains("name.hung")) {
    auto const asked = value_of(facts, "name.asked");
    return {several && !facts.contains("name.unknown") ? grade : Grade::warning, "names",
            "no answer for " + (asked.empty() ? own : asked) + " within " + value_of(facts, "name.hung"),
            "a name server in /etc/resolv.conf does not answer; put the nodes into /etc/hosts"};
  }
  if (addresses.empty()) {
    return {grade, "names", own + " has no address: " + value_of(facts, "name.error"),
            "add this node to DNS or to /etc/hosts on all nodes, or give an address with --rdzv-endpoint"};
  }
  auto const each = split(addresses, ' ');
  if (std::ranges::all_of(each, [](std::string const& address) { return is_loopback(address); })) {
    return {several ? Grade::warning : Grade::note, "names",
            own + " is " + addresses + ", which other nodes cannot reach",
            "remove the name from that line of /etc/hosts, or give an address with --rdzv-endpoint and --local-addr"};
  }
  auto const back = value_of(facts, "name.back");
  if (!back.empty() && short_name(back) != short_name(own)) {
    return {Grade::note, "names", own + " is " + addresses + ", but a reverse lookup of that address gives " + back,
            "harmless for cxxrun, which compares addresses; other programs compare names"};
  }
  return {Grade::fine, "names", own + " is " + addresses + (back.empty() ? "" : ", reverse lookup " + back), ""};
}

// ---- the system

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string limit_text(std::optional<double> limit) {
  return limit ? std::to_string(static_cast<std::uint64_t>(*limit)) : "unlimited";
}

Finding judge_ports(Facts const& facts) {
  if (auto const error = value_of(facts, "port.error"); !error.empty()) {
    return {Grade::failure, "ports", "cannot accept connections here: " + error,
            "check the firewall, and what the container or its seccomp profile forbids"};
  }
  auto const taken = value_of(facts, "port.taken");
  auto const range = value_of(facts, "port.range");
  std::string const free = "any free port of " + (range.empty() ? "the kernel's" : range);
  return taken.empty() ? Finding{Grade::fine, "ports", free, ""}
                       : Finding{Grade::note, "ports", free + "; taken: " + taken,
                                 "it matters only to a job that asks for one of these: choose another port with "
                                 "--rdzv-endpoint HOST:PORT"};
}

Finding judge_clock(Facts const& facts) {
  auto const synced = value_of(facts, "clock.synced");
  if (synced == "0") {
    return {Grade::warning, "clock", "the kernel does not report it as synchronized by NTP",
            "start chrony or ntpd: munge refuses credentials older than 5 minutes, and times in the logs of the nodes "
            "do not match"};
  }
  return {Grade::fine, "clock", synced.empty() ? "not known" : "synchronized by NTP", ""};
}

Finding judge_kernel(Facts const& facts) {
  auto const release = value_of(facts, "kernel.release");
  std::string const text = "Linux " + release + ", glibc " + value_of(facts, "kernel.libc");
  if (kernel_too_old(release)) {
    return {Grade::warning, "kernel", text,
            "cxxrun is made for Linux 4.18 and newer, and may fail here: leave the node out with --exclude"};
  }
  if (auto const proc = value_of(facts, "kernel.proc"); !proc.empty()) {
    return {Grade::warning, "kernel", text + "; /proc: " + proc,
            "without /proc cxxrun cannot find the processes that workers start: mount it in the container or chroot"};
  }
  if (auto const pidfd = value_of(facts, "kernel.pidfd"); !pidfd.empty()) {
    return {
        Grade::note, "kernel", text + "; pidfd_open: " + pidfd,
        "harmless, cxxrun works without it; the call needs Linux 5.3, and a container's seccomp profile may forbid it"};
  }
  return {Grade::fine, "kernel", text, ""};
}

Finding judge_cpus(Facts const& facts) {
  auto const usable = number(facts, "cpus.usable");
  auto const quota = number(facts, "cpus.quota");
  std::string const text = whole(usable) + " of " + whole(number(facts, "cpus.online"));
  if (quota && usable && *quota < *usable) {
    return {Grade::warning, "CPUs", text + ", control group quota " + tenths(*quota),
            "workers with more threads are throttled: ask for more with --cpus-per-task, or set OMP_NUM_THREADS"};
  }
  if (auto const warning = value_of(facts, "cpus.warning"); !warning.empty()) {
    return {Grade::warning, "CPUs", text, warning};
  }
  auto const gpus = number(facts, "gpu.workers");
  if (usable && gpus && *gpus > *usable) {
    return {Grade::warning, "CPUs", text + " for " + whole(gpus) + " GPUs",
            "a worker per GPU, each with data loaders, needs more: --cpus-per-task=N, on the srun line too"};
  }
  bool const bound = value_of(facts, "slurm.TaskPlugin").find("affinity") != std::string::npos;
  if (bound && usable && *usable == 1 && number(facts, "cpus.online").value_or(1) > 1) {
    return {Grade::note, "CPUs", text + ", by task/affinity",
            "srun gives a task one CPU unless it asks for more, and data loaders share it: srun --cpus-per-task=N"};
  }
  return {Grade::fine, "CPUs", text, ""};
}

Finding judge_memory(Facts const& facts) {
  auto const available = number(facts, "memory.available");
  auto const limit = number(facts, "memory.limit");
  auto const used = number(facts, "memory.usage");
  if (!available) {
    return {Grade::note, "memory", "not known", ""};
  }
  auto free = *available;
  std::string text = size_text(*available) + " available";
  if (limit && used) {
    free = std::min(free, *limit - std::min(*limit, *used));
    text +=
        ", limit " + size_text(*limit) + " of " + value_of(facts, "memory.group") + ", " + size_text(*used) + " used";
  }
  if (free < kGiB) {
    return {free < kGiB / 16 ? Grade::failure : Grade::warning, "memory", text,
            limit ? "ask for more with --mem (0: all of the node)" : "other programs use it: see top"};
  }
  return {Grade::fine, "memory", text, ""};
}

Finding judge_shm(Facts const& facts) {
  if (auto const error = value_of(facts, "shm.error"); !error.empty()) {
    return {Grade::warning, "/dev/shm", error, "mount it: data loaders and NCCL need it"};
  }
  auto const free = number(facts, "shm.free");
  auto const size = number(facts, "shm.size");
  if (!free || !size) {
    return {Grade::note, "/dev/shm", "not known", ""};
  }
  std::string const text = size_text(*free) + " free of " + size_text(*size);
  if (*free < kGiB) {
    return {Grade::warning, "/dev/shm", text,
            "data loaders of PyTorch die with a bus error when it is full: docker run --shm-size=16g or --ipc=host; "
            "else remove old files there"};
  }
  return {Grade::fine, "/dev/shm", text, ""};
}

Finding judge_descriptors(Facts const& facts) {
  auto const hard = number(facts, "nofile.hard");
  std::string const text = limit_text(number(facts, "nofile.soft")) + ", up to " + limit_text(hard);
  if (hard && *hard < 4096) {
    return {*hard < 256 ? Grade::failure : Grade::warning, "descriptors", text,
            "raise the hard limit (ulimit -Hn, LimitNOFILE of slurmd): the first node needs one for each worker"};
  }
  return {Grade::fine, "descriptors", text, ""};
}

Finding judge_locked_memory(Facts const& facts) {
  auto const soft = number(facts, "memlock.soft");
  auto const cards = value_of(facts, "rdma.devices");
  std::string const text = (soft ? size_text(*soft) : "unlimited") + (cards.empty() ? "" : ", with " + cards);
  if (soft && !cards.empty()) {
    return {Grade::warning, "locked memory", text,
            "InfiniBand and RoCE need it unlimited: LimitMEMLOCK=infinity of slurmd, "
            "PropagateResourceLimitsExcept=MEMLOCK"};
  }
  return {Grade::fine, "locked memory", text, ""};
}

// ---- Slurm

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
                          "Slurm does not kill processes that outlive their task, and its signals reach every process; "
                          "administrators: use proctrack/cgroup. cxxrun kills its own workers either way"));
  }
  if (lower(value_of(facts, "slurm.SignalChildrenProcesses")) == "yes") {
    found.push_back(
        slurm(Grade::warning, "SignalChildrenProcesses=yes",
              "Slurm's signals reach every process, DataLoader helpers too: scancel --signal=USR1 kills those without "
              "a handler; --checkpoint-signal USR1@120 signals only the workers that have one"));
  }
  if (lower(value_of(facts, "slurm.TaskPluginParam")).find("oomkillstep") != std::string::npos) {
    found.push_back(slurm(Grade::note, "TaskPluginParam=OOMKillStep",
                          "one process out of memory ends the whole step, cxxrun included, so --max-restarts cannot "
                          "help; with srun --oom-kill-step=0 only that process is killed"));
  }
  auto const tasks = value_of(facts, "slurm.TaskPlugin");
  if (!tasks.empty() && tasks.find("cgroup") == std::string::npos) {
    found.push_back(slurm(Grade::note, "TaskPlugin=" + tasks,
                          "jobs on one node are not isolated: nothing enforces which memory and GPUs each one may use; "
                          "administrators: use task/cgroup; or submit with --exclusive"));
  } else if (lower(value_of(facts, "slurm.ConstrainDevices")) == "no" && number(facts, "gpu.devices").value_or(0) > 0) {
    found.push_back(
        slurm(Grade::note, "ConstrainDevices=no",
              "the GPUs of other jobs on this node can be opened; CUDA_VISIBLE_DEVICES alone says which are yours: do "
              "not change it, or submit with --exclusive; administrators: ConstrainDevices=yes"));
  }
}

void judge_times(Findings& found, Facts const& facts) {
  if (auto const wait = seconds(facts, "KillWait"); wait && *wait < 30) {
    found.push_back(slurm(Grade::warning, "KillWait=" + whole(wait) + " s: from SIGTERM to SIGKILL at the end of a job",
                          "save checkpoints before that: --checkpoint-signal USR1@120"));
  }
  auto const unkillable = seconds(facts, "UnkillableStepTimeout");
  if (unkillable && *unkillable < 120) {
    found.push_back(slurm(Grade::note, "UnkillableStepTimeout=" + whole(unkillable) + " s",
                          "a process that writes a core dump or hangs in a driver for longer drains the node; "
                          "administrators: 180 or more"));
  }
  if (auto const lost = seconds(facts, "SlurmdTimeout"); lost && (*lost == 0 || *lost > 600)) {
    found.push_back(
        slurm(Grade::note, "SlurmdTimeout=" + whole(lost) + " s",
              "Slurm takes a dead node for alive that long (0: for ever); cxxrun notices within --heartbeat-timeout"));
  }
}

/// With stepmgr the steps of a job are managed by its first node (slurm.conf(5), enable_stepmgr; since Slurm 24.05).
/// What happens when that node is lost was observed on 26.05.5 (docs/evidence/slurm_releases.md).
void judge_step_manager(Findings& found, Facts const& facts) {
  auto const manager = value_of(facts, "slurm.step_manager");
  if (!manager.empty() && number(facts, "slurm.nodes").value_or(1) > 1) {
    bool const goes_on = value_of(facts, "slurm.no_kill") == "set";
    found.push_back(slurm(goes_on ? Grade::warning : Grade::note,
                          "the steps of this job are managed by " + manager + " (stepmgr)",
                          "if " + manager +
                              " is lost, srun does not end and steps can neither be started nor signalled, though "
                              "cxxrun continues on the other nodes: scancel the job once its verdict.json is written"));
  }
}

std::string settings_error(Facts const& facts) {
  if (auto error = value_of(facts, "slurm.unasked"); !error.empty()) {
    return error;
  }
  auto const hung = value_of(facts, "slurm.hung");
  return hung.empty() ? value_of(facts, "slurm.error") : "scontrol did not answer within " + hung;
}

/// Replaces a finding that needed a child process if none could be started.
Finding unless_unasked(Facts const& facts, Finding const& finding) {
  static constexpr std::array kAbout{std::pair{"names", "name"},   std::pair{"GPUs", "gpu"}, std::pair{"NCCL", "nccl"},
                                     std::pair{"directory", "fs"}, std::pair{"logs", "log"}, std::pair{"home", "home"},
                                     std::pair{"Python", "python"}};
  for (auto const& [line, child] : kAbout) {
    auto const error = value_of(facts, std::string(child) + ".unasked");
    if (finding.about == line && !error.empty()) {
      return {Grade::note, finding.about, "not checked: no process could be started", ""};
    }
  }
  return finding;
}

Findings judge_slurm(Facts const& facts) {
  if (auto const trouble = value_of(facts, "slurm.trouble"); !trouble.empty()) {
    bool const lacks = !trouble.starts_with("heterogeneous");  // that message has its own remedy
    return {
        slurm(Grade::failure, trouble, lacks ? "pass all SLURM_* variables through to the container or shell" : "")};
  }
  if (value_of(facts, "slurm.job").empty()) {
    return {slurm(Grade::note, "not in a job", "inside a job: srun cxxrun --doctor")};
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
                          "cxxrun needs scontrol for --requeue alone (in a container: bind-mount it)"));
  }
  judge_tracking(found, facts);
  judge_times(found, facts);
  judge_step_manager(found, facts);
  if (number(facts, "slurm.nodes").value_or(1) > 1 && value_of(facts, "slurm.no_kill") != "set") {
    found.push_back(slurm(Grade::note, "--no-kill is not known to be set",
                          "for jobs that continue without a lost node give --no-kill to sbatch and to srun; export "
                          "SLURM_NO_KILL=set before srun does the same and silences this line"));
  }
  if (found.empty()) {
    found.push_back(slurm(Grade::fine, place, ""));
  }
  return found;
}

}  // namespace

bool kernel_too_old(std::string_view release) {
  std::pair<int, int> version;
  auto const* const end = release.data() + release.size();
  auto const [dot, error] = std::from_chars(release.data(), end, version.first);
  if (error != std::errc{} || dot == end || *dot != '.' ||
      std::from_chars(dot + 1, end, version.second).ec != std::errc{}) {
    return false;
  }
  return version < std::pair(4, 18);
}

Findings judge_lookups(Facts const& facts) {
  Findings found;
  compare_lookups(found, facts, value_of(facts, "name.own"), "name");
  compare_lookups(found, facts, value_of(facts, "first.name"), "first");
  if (auto const took = number(facts, "name.slowest_ms").value_or(0); took > kSlowName) {
    found.push_back({Grade::warning, "names",
                     value_of(facts, "name.slowest") + " took " + tenths(took / 1000) + " s to resolve",
                     "a name server in /etc/resolv.conf is dead or slow, and each lookup waits for it: remove it, or "
                     "put the nodes into /etc/hosts"});
  }
  return found;
}

Finding judge_processes(Facts const& facts) {
  if (auto const error = value_of(facts, "fork.error"); !error.empty()) {
    return {Grade::failure, "processes", "no process could be started: " + error,
            "raise `ulimit -u`, or TasksMax and pids.max of the container; or end processes that run there already"};
  }
  auto const user = number(facts, "nproc.soft");
  auto const left = number(facts, "pids.left");
  std::string const text =
      limit_text(user) + " for this user" + (left ? ", " + whole(left) + " left in the control group" : "");
  bool const few = (user && *user < 1024) || (left && *left < 1024);
  return few ? Finding{Grade::warning, "processes", text,
                       "threads count too: raise `ulimit -u`, or TasksMax and pids.max of the container"}
             : Finding{Grade::fine, "processes", text, ""};
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
