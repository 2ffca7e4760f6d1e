#include "src/base/os/limits.hpp"

#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <new>
#include <pthread.h>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

#include <boost/system/system_error.hpp>

#include "src/base/core/memory_counters.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::os {
namespace {

constexpr std::size_t kThreadStack = std::size_t{2} << 20U;

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

/// 0 when it has none.
int error_in(std::exception const& error) {
  if (auto const* const asio = dynamic_cast<boost::system::system_error const*>(&error)) {
    return asio->code().category() == boost::system::system_category() ? asio->code().value() : 0;
  }
  if (auto const* const standard = dynamic_cast<std::system_error const*>(&error)) {
    return standard->code().value();
  }
  return dynamic_cast<std::bad_alloc const*>(&error) != nullptr ? ENOMEM : 0;
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
                                least.letter + "), and " + kib + " are needed here at least; " + lifting(least.letter));
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

bool descriptors_left(std::uint64_t count) {
  UniqueFd const lowest(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  auto const most = limit_of(RLIMIT_NOFILE).soft;
  return lowest && (!most || static_cast<std::uint64_t>(lowest.get()) + count <= *most);
}

}  // namespace cxxrun::os
