#include "launcher/report/death.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "rendezvous/history/retrying.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr char const* kLessMemory = "or use less memory, such as fewer DataLoader workers";
constexpr char const* kMoreSpace = "free space there, or write elsewhere";
constexpr char const* kMoreQuota = "free space of yours there, or write elsewhere; quota -s shows what you have";
constexpr char const* kShm = "/dev/shm";

/// As Slurm names control groups: ".../job_3/step_0/...", since 26.05 "...slurmstepd.scope/SLUID/step_0/...", where
/// nothing tells the job's number.
struct SlurmGroup {
  std::string job;   ///< "" where it is not told
  std::string step;  ///< "" for the job's own one
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

/// Which memory ran out, behind "killed by the kernel: ".
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

/// A limit that is reached is one of the job's; memory of the host is anybody's.
Explanation by_kernel(MemoryFacts const& memory, std::string const& how, std::string const& amounts = "") {
  return {how + "killed by the kernel: " + shortage(memory) + amounts, relief(memory), memory.reached.has_value()};
}

Explanation of_kill(DeathFacts const& facts) {
  if (facts.lease_over) {
    return {"killed by cxxrun's parent process: the lease of this node had run out",
            "look at the network and at the node"};
  }
  auto const& memory = facts.memory;
  auto const kills = memory.kills ? *memory.kills : memory.machine.value_or(0);
  if (memory.kills && kills >= facts.killed) {
    return by_kernel(memory, "", amounts(facts));
  }
  if (kills > facts.larger) {
    return by_kernel(memory, "probably ", amounts(facts));
  }
  std::string const outside = "from outside (not cxxrun";
  if (!memory.kills && !memory.machine) {
    return {outside + "; whether by the out-of-memory killer cannot be seen here)",
            "look at the kernel's log (dmesg) of the node"};
  }
  bool const elsewhere = kills == 0 && memory.machine.value_or(0) > 0;
  return elsewhere ? Explanation{outside + "; the out-of-memory killer was at work on this host, but not counted here)",
                                 "look at the kernel's log (dmesg) of the node"}
                   : Explanation{outside + ", not the out-of-memory killer)", ""};
}

Explanation of_helper(DeathFacts const& facts, Said const& said) {
  std::string const who = "DataLoader worker (pid " + said.helper + ") ";
  if (!said.helper_killed) {
    return {who + "died of SIGBUS: /dev/shm was too small for it",
            "use a larger /dev/shm (containers: --shm-size), or num_workers=0"};
  }
  return facts.memory.kills.value_or(0) > 0 ? by_kernel(facts.memory, who + "was ")
                                            : Explanation{who + "was killed by SIGKILL from outside", ""};
}

Explanation of_full_disk(DeathFacts const& facts, Said const& said) {
  if (said.over_quota) {
    return {"disk quota used up" + (said.disk_path.empty() ? "" : ": " + printable(said.disk_path)), kMoreQuota};
  }
  auto const full = std::find_if(facts.paths.begin(), facts.paths.end(), [](auto const& path) { return path.full; });
  std::string const where = !said.disk_path.empty() ? said.disk_path : full != facts.paths.end() ? full->path : "";
  return {where.empty() ? "disk full: no space left on device" : "disk full: " + printable(where), kMoreSpace};
}

/// A file that is not there any more is nobody's failure.
bool of_server(int error) {
  static constexpr std::array kErrors{EIO, ESTALE, ENOTCONN, ETIMEDOUT, EHOSTDOWN, EHOSTUNREACH, EREMOTEIO};
  return std::find(kErrors.begin(), kErrors.end(), error) != kErrors.end();
}

/// "" when all of them answer.
std::string gone(std::vector<PathFacts> const& paths) {
  for (auto const& path : paths) {
    if (!path.answered) {
      return printable(path.path) + " does not answer within 2 s";
    }
    if (of_server(path.error)) {
      return printable(path.path) + ": " + std::strerror(path.error);  // NOLINT(concurrency-mt-unsafe)
    }
  }
  return {};
}

Explanation of_files(DeathFacts const& facts) {
  constexpr char const* kLook = "look at the file server and at the network to it";
  if (auto const path = gone(facts.paths); !path.empty()) {
    return {"file server gone: " + path, kLook};
  }
  if (facts.status.kind != ExitStatus::Kind::signalled) {
    return {"a file could not be read or written, and its file system answers again", kLook};
  }
  bool const full = std::any_of(facts.paths.begin(), facts.paths.end(),
                                [](auto const& path) { return path.full && path.path == kShm; });
  return full
             ? Explanation{"/dev/shm is full", "use a larger /dev/shm (containers: --shm-size)"}
             : Explanation{"a mapped file was truncated, /dev/shm was full, or a file server was gone for a while", ""};
}

/// Of Python's exceptions. The last line of `said` is the one that says why.
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

/// Where the core is to be found.
std::string core_advice(DeathFacts const& facts) {
  std::string const pattern(trim(facts.core_pattern));
  if (!facts.status.core_dumped || pattern.empty()) {
    return {};
  }
  if (pattern.front() != '|') {
    bool const own = pattern.find("%p") != std::string::npos || pattern.find("%P") != std::string::npos;
    return "core file: " + printable(pattern) + (own ? "" : ", which the core of another rank may have replaced");
  }
  std::string const program = split(trim(pattern.substr(1)), ' ').front();
  return "core piped to " + printable(program) +
         (program.find("systemd-coredump") == std::string::npos ? ""
                                                                : ": coredumpctl info " + std::to_string(facts.pid));
}

Explanation of_signal(DeathFacts const& facts) {
  switch (facts.status.value) {
    case SIGBUS: return of_files(facts);
    case SIGXCPU: return {"limit on CPU time reached", "raise `ulimit -t`", true};
    case SIGXFSZ: return {"limit on the size of files reached", "raise `ulimit -f`", true};
    default: return {};
  }
}

Explanation of_exit(DeathFacts const& facts, Said const& said) {
  if (facts.status == ExitStatus::signalled(SIGKILL)) {
    return of_kill(facts);  // whatever it has said before, it does not die of that
  }
  if (!said.helper.empty()) {
    return of_helper(facts, said);
  }
  if (!facts.limit.cause.empty() && facts.status != ExitStatus::signalled(SIGBUS)) {
    return facts.limit;
  }
  if (said.disk_full) {
    return of_full_disk(facts, said);
  }
  if (facts.status.kind == ExitStatus::Kind::signalled) {
    return of_signal(facts);
  }
  if (facts.memory.kills.value_or(0) > facts.killed) {
    return by_kernel(facts.memory, "a process of this node's workers was ");
  }
  return said.io_error ? of_files(facts) : Explanation{};
}

/// From `begin` up to one of the characters.
std::string_view until(std::string_view text, std::size_t begin, std::string_view end) {
  return text.substr(begin, text.find_first_of(end, begin) - begin);
}

/// What stands between the last two quotation marks that belong together; "" = none.
std::string_view quoted(std::string_view text) {
  using Marks = std::pair<std::string_view, std::string_view>;
  constexpr std::array<Marks, 4> kMarks{{{"\u2018", "\u2019"}, {"\"", "\""}, {"'", "'"}, {"`", "'"}}};
  for (auto const& [open, close] : kMarks) {
    auto const end = text.rfind(close);
    auto const begin = end == text.npos || end == 0 ? text.npos : text.rfind(open, end - 1);
    if (begin != text.npos) {
      return text.substr(begin + open.size(), end - begin - open.size());
    }
  }
  return {};
}

/// The last word that is an absolute path; "" = none.
std::string_view last_path(std::string_view text) {
  auto const begin = text.starts_with('/') ? 0 : text.find(" /") + 1;  // npos + 1 is 0
  auto const path = until(text, begin, ": ,;)\t");
  return path.starts_with('/') ? path : "";
}

/// The path in the line around "No space left on device" or "Disk quota exceeded": Python and C++ name it behind these
/// words, most programs before. Of two the second is written to.
std::string full_path(std::string_view before, std::string_view behind) {
  if (behind.starts_with(": '")) {
    auto const second = behind.find("' -> '");
    return std::string(until(behind, second == behind.npos ? 3 : second + 6, "'"));
  }
  if (behind.starts_with(" [/") || behind.starts_with(" [\"/")) {
    auto const path = until(behind, behind.rfind(" [") + 2, "]");
    return std::string(path.starts_with('"') ? until(path, 1, "\"") : path);
  }
  auto const name = quoted(before.substr(0, before.find_last_not_of("'\"") + 1));
  return std::string(name.empty() ? last_path(before) : name);
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
    auto const then = std::find_if(before.limits.begin(), before.limits.end(),
                                   [&](auto const& each) { return each.group == limit.group; });
    bool const hit = then != before.limits.end() && limit.hits > then->hits;
    if (hit && (!facts.reached || limit.bytes < facts.reached->bytes)) {
      facts.reached = limit;
    }
  }
  return facts;
}

Explanation explain(DeathFacts const& facts) {
  if (facts.status.ok() || facts.status.kind == ExitStatus::Kind::not_started) {
    return {};  // the status says it all
  }
  auto found = of_exit(facts, signs_in(facts.said));
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

Said signs_in(std::string_view text) {
  Said said;
  constexpr std::string_view kHelper = "DataLoader worker (pid ";  // "(pid(s) 7, 8)" is another message
  for (auto at = text.find(kHelper); at != std::string_view::npos && said.helper.empty();
       at = text.find(kHelper, at + 1)) {
    auto const line = until(text, at, "\n");
    auto const pid = until(line, kHelper.size(), ")");
    said.helper_killed = line.find("is killed by signal: Killed") != std::string_view::npos;
    bool const bus = line.find("is killed by signal: Bus error") != std::string_view::npos;
    bool const told = number_in<int>(pid).has_value();  // a traceback shows the source, with what stands for the pid
    said.helper = told && (said.helper_killed || bus) ? std::string(pid) : "";
  }
  // Go begins them with a small letter.
  for (std::string_view const full : {"o space left on device", "isk quota exceeded"}) {
    auto const found = text.rfind(full);
    if (found == text.npos || found == 0 || said.disk_full) {
      continue;
    }
    said.disk_full = true;
    said.over_quota = full.starts_with("isk");
    auto const words = found - 1;
    auto const line = text.substr(0, words).rfind('\n') + 1;  // npos + 1 is 0
    said.disk_path = full_path(text.substr(line, words - line), until(text, found + full.size(), "\n"));
  }
  for (std::string_view const sign :
       {"Input/output error", "Stale file handle", "Transport endpoint is not connected"}) {
    said.io_error = said.io_error || text.find(sign) != std::string_view::npos;
  }
  return said;
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

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKi = 1024;
  auto const whole = [](std::uint64_t number, char const* unit) { return std::to_string(number) + " " + unit; };
  if (bytes < kKi * kKi) {
    return whole(bytes / kKi, "KiB");
  }
  if (bytes < kKi * kKi * kKi) {
    return whole(bytes / (kKi * kKi), "MiB");
  }
  auto const tenths = bytes * 10 / (kKi * kKi * kKi);
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + " GiB";
}

}  // namespace cxxrun::launcher
