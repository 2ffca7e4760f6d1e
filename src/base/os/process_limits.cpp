#include "src/base/os/process_limits.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <new>
#include <pthread.h>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <boost/system/system_error.hpp>

#include "src/base/core/exit_status.hpp"
#include "src/base/core/limits.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::os {
namespace {

constexpr std::size_t kThreadStack = std::size_t{2} << 20U;
constexpr std::size_t kMostLogged = std::size_t{1} << 20U;

std::optional<std::uint64_t> bound(rlim_t value) {
  return value == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(value);
}

Limit limit_of(__rlimit_resource which) {
  rlimit found{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(which, &found);
  return {bound(found.rlim_cur), bound(found.rlim_max)};
}

std::vector<TaskGroup> task_groups() {
  std::vector<TaskGroup> found;
  auto const groups = find_groups(read_text("/proc/self/cgroup"), read_text("/proc/self/mountinfo"), "pids");
  for (auto const& below : groups ? groups->below : std::vector<std::string>{}) {
    auto const at = groups->mount + below;
    if (auto const most = limit_in(read_text(at + "/pids.max"))) {
      auto const now = number_in<std::uint64_t>(trim(read_text(at + "/pids.current")));
      found.push_back({groups->top + below, *most, now.value_or(0)});
    }
  }
  return found;
}

/// The first number of /proc/self/statm.
std::uint64_t mapped_bytes() {
  auto const pages = number_in<std::uint64_t>(split(read_text("/proc/self/statm"), ' ').front());
  return pages.value_or(0) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// The errno in the exception; 0 when it has none.
int error_in(std::exception const& error) {
  if (auto const* const asio = dynamic_cast<boost::system::system_error const*>(&error)) {
    return asio->code().category() == boost::system::system_category() ? asio->code().value() : 0;
  }
  if (auto const* const standard = dynamic_cast<std::system_error const*>(&error)) {
    return standard->code().value();
  }
  return dynamic_cast<std::bad_alloc const*>(&error) != nullptr ? ENOMEM : 0;
}

UniqueFd open_to_read(std::string const& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

/// The text of such a file, from its start; "" when it cannot be read. One long read gets all of it.
std::string text_of(UniqueFd const& file) {
  std::array<char, 16384> text{};
  auto const got = file ? retried([&] { return ::pread(file.get(), text.data(), text.size(), 0); }) : 0;
  return {text.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

/// Bytes of file pages by memory.stat, without those of /dev/shm. Version 1 counts the groups below only in "total_".
std::uint64_t file_pages(std::string const& parts, bool unified) {
  auto const of = [&](char const* key) { return counter_in(parts, unified ? key : "total_" + std::string(key)); };
  return of("inactive_file").value_or(0) + of("active_file").value_or(0);
}

}  // namespace

Limits read_limits() {
  Limits limits;
  limits.files = limit_of(RLIMIT_NOFILE);
  limits.tasks = limit_of(RLIMIT_NPROC);
  limits.file_size = limit_of(RLIMIT_FSIZE);
  limits.address_space = limit_of(RLIMIT_AS);
  limits.data = limit_of(RLIMIT_DATA);
  limits.locked = limit_of(RLIMIT_MEMLOCK);
  limits.cpu_time = limit_of(RLIMIT_CPU);
  limits.mapped = mapped_bytes();
  limits.groups = task_groups();
  limits.privileged = getuid() == 0;
  limits.of_slurm = !variable("SLURM_JOB_ID").empty();
  return limits;
}

Limits worker_limits() {
  Limits limits = read_limits();
  if (auto const before = original_nofile_limit()) {
    limits.files.soft = *before;
  }
  return limits;
}

std::string explain_refusal(std::string const& what, int error) {
  return cxxrun::explain_refusal(what, error, read_limits());
}

int after_output(std::string const& program, int code) {
  bool const written = (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) || errno == EPIPE;
  if (!written) {
    std::fprintf(stderr, "%s: cannot write to standard output: %s\n", program.c_str(), std::strerror(errno));
  }
  return written || code != 0 ? code : kExitSystem;
}

std::string explain_refusal(std::string const& what, std::exception const& error) {
  int const number = error_in(error);
  bool const limited = number != 0 && !reached_limit(number, read_limits()).limit.empty();
  return limited ? explain_refusal(what, number) : what + ": " + error.what() + "; see the limits with: ulimit -a";
}

std::string explain(Error const& error) {
  auto const reached = error.os_errno == 0 ? ReachedLimit{} : reached_limit(error.os_errno, read_limits());
  return reached.limit.empty() ? error.message() : error.message() + ": " + reached.limit + "; " + reached.remedy;
}

Result<void> check_memory() {
  struct Least {
    __rlimit_resource which;
    char const* what;
    char letter;
    std::uint64_t bytes;
  };
  for (auto const& least : {Least{RLIMIT_STACK, "stack", 's', 512U << 10U}, Least{RLIMIT_DATA, "data", 'd', 8U << 20U},
                            Least{RLIMIT_AS, "address space", 'v', 32U << 20U}}) {
    auto const most = limit_of(least.which).soft;
    if (most && *most < least.bytes) {
      auto const kib = std::to_string(least.bytes >> 10U);
      return fail(Errc::io, "the limit is " + std::to_string(*most >> 10U) + " KiB of " + least.what + " (ulimit -" +
                                least.letter + "), but at least " + kib + " KiB are needed; " + lifting(least.letter));
    }
  }
  return {};
}

void set_stack_size_of_threads() {
  pthread_attr_t defaults;
  if (pthread_getattr_default_np(&defaults) == 0) {
    if (pthread_attr_setstacksize(&defaults, kThreadStack) == 0) {
      pthread_setattr_default_np(&defaults);
    }
    pthread_attr_destroy(&defaults);
  }
}

std::optional<double> cpu_quota() {
  auto const groups = find_groups(read_text("/proc/self/cgroup"), read_text("/proc/self/mountinfo"), "cpu");
  std::optional<double> least;
  for (auto const& below : groups ? groups->below : std::vector<std::string>{}) {
    auto const at = groups->mount + below;
    std::string const text = groups->unified
                                 ? read_text(at + "/cpu.max")
                                 : read_text(at + "/cpu.cfs_quota_us") + " " + read_text(at + "/cpu.cfs_period_us");
    auto const words = split(text, ' ');
    auto const time = number_in<std::uint64_t>(trim(words.front()));  // "max" and -1 are no limit
    auto const period = number_in<std::uint64_t>(trim(words.back()));
    if (time && period.value_or(0) > 0) {
      auto const cpus = static_cast<double>(*time) / static_cast<double>(*period);
      least = std::min(least.value_or(cpus), cpus);
    }
  }
  return least;
}

bool descriptors_left(std::uint64_t count) {
  UniqueFd const lowest(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  auto const most = limit_of(RLIMIT_NOFILE).soft;
  return lowest && (!most || static_cast<std::uint64_t>(lowest.get()) + count <= *most);
}

MemoryGroup::MemoryGroup(std::string const& root) : machine_(open_to_read(root + "/proc/vmstat")) {
  auto const found =
      find_groups(read_text(root + "/proc/self/cgroup"), read_text(root + "/proc/self/mountinfo"), "memory");
  if (!found) {
    return;
  }
  unified_ = found->unified;
  std::string const base = root + found->mount;
  // Version 1 counts a kill only in the group of the killed process; version 2 also in the groups above it.
  kills_ = open_to_read(base + found->below.front() + (unified_ ? "/memory.events" : "/memory.oom_control"));
  for (auto const& below : found->below) {
    std::string const at = base + below;
    Group group{found->top + below, open_to_read(at + (unified_ ? "/memory.max" : "/memory.limit_in_bytes")),
                open_to_read(at + (unified_ ? "/memory.current" : "/memory.usage_in_bytes")),
                open_to_read(at + "/memory.stat"),
                open_to_read(at + (unified_ ? "/memory.events.local" : "/memory.failcnt"))};
    if (limit_in(text_of(group.limit))) {
      groups_.push_back(std::move(group));
    }
  }
}

MemoryCounters MemoryGroup::read() const {
  MemoryCounters counters;
  counters.kills = counter_in(text_of(kills_), "oom_kill");
  counters.machine = counter_in(text_of(machine_), "oom_kill");
  for (auto const& group : groups_) {
    auto const limit = limit_in(text_of(group.limit));
    std::string const hits = text_of(group.hits);
    auto const usage = number_in<std::uint64_t>(trim(text_of(group.usage))).value_or(0);
    if (limit) {
      counters.limits.push_back(
          {group.name, *limit, usage - std::min(usage, file_pages(text_of(group.parts), unified_)),
           (unified_ ? counter_in(hits, "oom") : number_in<std::uint64_t>(trim(hits))).value_or(0)});
    }
  }
  return counters;
}

KernelLog::KernelLog(char const* path) : file_(::open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (file_ && ::lseek(file_.get(), 0, SEEK_END) < 0) {
    file_.reset();
  }
}

std::string KernelLog::read_new() {
  std::string text;
  std::array<char, 8192> record{};  // a read returns one record, and fails if it does not fit
  while (file_ && text.size() < kMostLogged) {
    auto const got = retried([&] { return ::read(file_.get(), record.data(), record.size()); });
    if (got > 0) {
      text.append(record.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EPIPE) {  // EPIPE: records were overwritten; the next read goes on
      break;
    }
  }
  return text;
}

}  // namespace cxxrun::os
