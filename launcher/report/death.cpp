#include "launcher/report/death.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "rendezvous/history/restarts.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr char const* kLessMemory = "or use less memory, such as fewer DataLoader workers";
constexpr char const* kMoreSpace = "free space there, or write elsewhere";
constexpr char const* kMoreQuota = "free space of yours there, or write elsewhere; quota -s shows what you have";
constexpr char const* kShm = "/dev/shm";

/// Slurm names control groups ".../job_3/step_0/...", and since 26.05 "...slurmstepd.scope/SLUID/step_0/...", which
/// does not show the job's number.
struct SlurmGroup {
  std::string job;   ///< "" if not shown
  std::string step;  ///< "" for the group of the job itself
};
std::optional<SlurmGroup> slurm_group(std::string const& group) {
  std::optional<SlurmGroup> found;
  std::string above;
  for (auto const& part : split(group, '/')) {
    if (part.starts_with("job_")) {
      found = SlurmGroup{part.substr(4), ""};
    } else if (!found && above.ends_with("slurmstepd.scope") && part.starts_with('s')) {
      found = SlurmGroup{};
    } else if (found && found->step.empty() && part.starts_with("step_")) {
      found->step = part.substr(5);
    }
    above = part;
  }
  return found;
}

std::string amounts(DeathFacts const& facts) {
  auto const& reached = facts.memory.reached;
  std::string const left = reached ? bytes_text(reached->usage) + " in use after it" : "";
  std::string const peak = facts.peak == 0 ? "" : "worker peak " + bytes_text(facts.peak);
  std::string const both = peak + (peak.empty() || left.empty() ? "" : ", ") + left;
  return both.empty() ? "" : " (" + both + ")";
}

/// Which memory ran out. Follows "killed by the kernel: ".
std::string shortage(MemoryFacts const& memory) {
  return memory.reached
             ? "memory limit " + bytes_text(memory.reached->bytes) + " of " + group_name(memory.reached->group)
             : "this host ran out of memory, no limit of yours was reached";
}

std::string relief(MemoryFacts const& memory) {
  return !memory.reached ? "ask for more of the host (--mem, --exclusive), " + std::string(kLessMemory)
         : is_of_slurm(memory.reached->group) ? "raise --mem, " + std::string(kLessMemory)
                                              : "raise that limit, " + std::string(kLessMemory);
}

/// A memory limit that was reached is caused by the job. Memory of the host may be used up by others.
Explanation killed_by_kernel(MemoryFacts const& memory, std::string const& how, std::string const& amounts = "") {
  return {how + "killed by the kernel: " + shortage(memory) + amounts, relief(memory), memory.reached.has_value()};
}

Explanation limit_on_time() {
  return {"limit on CPU time reached", "raise `ulimit -t`", true};
}

Explanation explain_kill(DeathFacts const& facts) {
  if (facts.lease_over) {
    return {"killed by cxxrun's parent process: the lease of this node had run out",
            "look at the network and at the node"};
  }
  auto const& memory = facts.memory;
  auto const kills = memory.kills ? *memory.kills : memory.machine.value_or(0);
  if (memory.kills && kills >= facts.killed) {
    return killed_by_kernel(memory, "", amounts(facts));
  }
  if (facts.time_used_up) {
    return limit_on_time();
  }
  if (kills > facts.larger) {
    return killed_by_kernel(memory, "probably ", amounts(facts));
  }
  std::string const outside = "from outside (not cxxrun";
  if (!memory.kills && !memory.machine) {
    return {outside + "; the out-of-memory killer cannot be ruled out here)",
            "look at the kernel's log (dmesg) of the node"};
  }
  bool const elsewhere = kills == 0 && memory.machine.value_or(0) > 0;
  return elsewhere ? Explanation{outside + "; the out-of-memory killer was at work on this host, but not counted here)",
                                 "look at the kernel's log (dmesg) of the node"}
                   : Explanation{outside + ", not the out-of-memory killer)", ""};
}

Explanation explain_helper(DeathFacts const& facts, StderrSigns const& said) {
  std::string const who = "DataLoader worker (pid " + said.helper + ") ";
  if (!said.helper_killed) {
    return {who + "died of SIGBUS: /dev/shm was too small for it",
            "use a larger /dev/shm (containers: --shm-size), or num_workers=0"};
  }
  return facts.memory.kills.value_or(0) > 0 ? killed_by_kernel(facts.memory, who + "was ")
                                            : Explanation{who + "was killed by SIGKILL from outside", ""};
}

Explanation explain_full_disk(DeathFacts const& facts, StderrSigns const& said) {
  if (said.over_quota) {
    return {"disk quota used up" + (said.disk_path.empty() ? "" : ": " + printable(said.disk_path)), kMoreQuota};
  }
  auto const full = std::ranges::find_if(facts.paths, [](auto const& path) { return path.full; });
  std::string const where = !said.disk_path.empty() ? said.disk_path : full != facts.paths.end() ? full->path : "";
  return {where.empty() ? "disk full: no space left on device" : "disk full: " + printable(where), kMoreSpace};
}

/// Errors of a file server. ENOENT is none of them: a file may be gone for good reason.
bool is_server_error(int error) {
  static constexpr std::array kErrors{EIO, ESTALE, ENOTCONN, ETIMEDOUT, EHOSTDOWN, EHOSTUNREACH, EREMOTEIO};
  return std::ranges::find(kErrors, error) != kErrors.end();
}

/// Describes the first path whose file system does not answer or fails; "" if all answer.
std::string unreachable(std::vector<PathFacts> const& paths) {
  for (auto const& path : paths) {
    if (!path.answered) {
      return printable(path.path) + " does not answer within 2 s";
    }
    if (is_server_error(path.error)) {
      return printable(path.path) + ": " + std::strerror(path.error);  // NOLINT(concurrency-mt-unsafe)
    }
  }
  return {};
}

Explanation explain_files(DeathFacts const& facts) {
  constexpr char const* kLook = "look at the file server and at the network to it";
  if (auto const path = unreachable(facts.paths); !path.empty()) {
    return {"file server gone: " + path, kLook};
  }
  if (facts.status.kind != ExitStatus::Kind::signalled) {
    return {"a file could not be read or written, and its file system answers again", kLook};
  }
  bool const full = std::ranges::any_of(facts.paths, [](auto const& path) { return path.full && path.path == kShm; });
  return full
             ? Explanation{"/dev/shm is full", "use a larger /dev/shm (containers: --shm-size)"}
             : Explanation{"a mapped file was truncated, /dev/shm was full, or a file server was gone for a while", ""};
}

/// Advice for some of Python's exceptions. The last line of `said` is the one that says why.
std::string python_advice(DeathFacts const& facts) {
  auto const why = std::string_view(facts.said).substr(facts.said.rfind('\n') + 1);  // npos + 1 is 0
  if (facts.status != ExitStatus::exited(1)) {
    return "";
  }
  if (rendezvous::is_unanswered(trim(printable_lines(why))) && !facts.has_stdin) {
    return "`--stdin rank0` gives cxxrun's standard input to rank 0, for input() and breakpoint() there; other ranks "
           "have none";
  }
  bool const lacks = why.find("ModuleNotFoundError") != why.npos;
  return lacks ? "install it, or start the Python that has it: `cxxrun --dry-run` names the one that runs" : "";
}

/// Where to find the core file.
std::string core_advice(DeathFacts const& facts) {
  std::string const pattern(trim(facts.core_pattern));
  if (!facts.status.core_dumped || pattern.empty()) {
    return {};
  }
  if (pattern.front() != '|') {
    bool const has_pid = pattern.find("%p") != std::string::npos;
    std::string const end = facts.core_uses_pid && !has_pid ? "." + std::to_string(facts.pid) : "";  // by the kernel
    bool const own = has_pid || !end.empty() || pattern.find("%P") != std::string::npos;
    return "core file: " + printable(pattern) + end + (own ? "" : ", which the core of another rank may have replaced");
  }
  std::string const program = split(trim(pattern.substr(1)), ' ').front();
  return "core piped to " + printable(program) +
         (program.find("systemd-coredump") == std::string::npos ? ""
                                                                : ": coredumpctl info " + std::to_string(facts.pid));
}

Explanation explain_signal(DeathFacts const& facts) {
  switch (facts.status.value) {
    case SIGBUS: return explain_files(facts);
    case SIGXCPU: return limit_on_time();
    case SIGXFSZ: return {"limit on the size of files reached", "raise `ulimit -f`", true};
    default: return {};
  }
}

Explanation explain_exit(DeathFacts const& facts, StderrSigns const& said) {
  if (facts.status == ExitStatus::signalled(SIGKILL)) {
    return explain_kill(facts);  // whatever stderr says did not cause a SIGKILL
  }
  if (!said.helper.empty()) {
    return explain_helper(facts, said);
  }
  if (!facts.limit.cause.empty() && facts.status != ExitStatus::signalled(SIGBUS)) {
    return facts.limit;
  }
  if (said.disk_full) {
    return explain_full_disk(facts, said);
  }
  if (facts.status.kind == ExitStatus::Kind::signalled) {
    return explain_signal(facts);
  }
  if (facts.memory.kills.value_or(0) > facts.killed) {
    return killed_by_kernel(facts.memory, "a process of this node's workers was ");
  }
  return said.io_error ? explain_files(facts) : Explanation{};
}

}  // namespace

MemoryFacts since(MemoryCounters const& before, MemoryCounters const& now) {
  MemoryFacts facts;
  auto const grown = [](auto const& then, auto const& later) {
    return then && later ? std::optional<std::uint64_t>(*later - std::min(*then, *later)) : std::nullopt;
  };
  facts.kills = grown(before.kills, now.kills);
  facts.machine = grown(before.machine, now.machine);
  for (auto const& limit : now.limits) {
    auto const then = std::ranges::find_if(before.limits, [&](auto const& each) { return each.group == limit.group; });
    bool const hit = then != before.limits.end() && limit.hits > then->hits;
    if (hit && (!facts.reached || limit.bytes < facts.reached->bytes)) {
      facts.reached = limit;
    }
  }
  return facts;
}

Explanation explain(DeathFacts const& facts) {
  if (facts.status.ok() || facts.status.kind == ExitStatus::Kind::not_started) {
    return {};  // the status says everything
  }
  auto found = explain_exit(facts, signs_in(facts.said));
  bool const killed = facts.status == ExitStatus::signalled(SIGKILL);
  if (found.cause.empty() && !killed) {
    found = facts.gpu;
  }
  if (found.advice.empty()) {
    found.advice = facts.status.kind == ExitStatus::Kind::signalled ? core_advice(facts) : python_advice(facts);
  }
  return found;
}

bool needs_probe(ExitStatus const& status, std::string_view said) {
  if (status.ok() || status.kind == ExitStatus::Kind::not_started) {
    return false;
  }
  auto const signs = signs_in(said);
  return status.shell_code() == 128 + SIGBUS || signs.io_error ||
         (signs.disk_full && !signs.over_quota && signs.disk_path.empty());
}

bool is_of_slurm(std::string const& group) {
  return slurm_group(group).has_value();
}

std::string group_name(std::string const& group) {
  auto const slurm = slurm_group(group);
  if (!slurm) {
    return "control group " + printable(group.empty() ? "/" : group);
  }
  if (slurm->job.empty()) {
    return slurm->step.empty() ? "this Slurm job" : "step " + printable(slurm->step) + " of this Slurm job";
  }
  return slurm->step.empty() ? "job " + printable(slurm->job) : "step " + printable(slurm->job + "." + slurm->step);
}

}  // namespace cxxrun::launcher
