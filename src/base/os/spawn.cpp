#include "src/base/os/spawn.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers)
#include <string_view>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/process_limits.hpp"
#include "src/base/os/system.hpp"

// Code of a child that may share its parent's memory: no sanitizer may instrument it.
#define CXXRUN_CHILD_CODE __attribute__((no_sanitize("address", "thread", "undefined")))

namespace cxxrun::os {
namespace {

constexpr unsigned kMostWithoutProc = 1U << 20U;  // without /proc every number is tried, at about 60 ns

CXXRUN_CHILD_CODE void let_go(unsigned fd, bool on_exec) {
  if (on_exec) {
    syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
  } else {
    syscall(SYS_close, fd);
  }
}

CXXRUN_CHILD_CODE unsigned most_descriptors() {
  rlimit limit{};
  bool const known = syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit) == 0;
  return known && limit.rlim_max < kMostWithoutProc ? static_cast<unsigned>(limit.rlim_max) : kMostWithoutProc;
}

// The number that the name spells; ~0U for "." and "..".
CXXRUN_CHILD_CODE unsigned number_of(char const* name) {
  unsigned number = 0;
  for (; *name != '\0'; ++name) {
    if (*name < '0' || *name > '9') {
      return ~0U;
    }
    number = number * 10 + static_cast<unsigned>(*name - '0');
  }
  return number;
}

// False when /proc cannot tell which descriptors are open. The kernel lists them by number, so closing one does not
// hide a later one.
CXXRUN_CHILD_CODE bool let_go_of_listed(unsigned first, bool on_exec) {
  auto const list =
      static_cast<unsigned>(syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (list == ~0U) {
    return false;
  }
  constexpr std::size_t kLengthAt = 16;  // struct linux_dirent64: number, offset, length, kind, name
  constexpr std::size_t kNameAt = 19;
  alignas(8) char entries[4096];  // NOLINT(modernize-avoid-c-arrays): no library call in the child
  for (;;) {
    long const bytes = syscall(SYS_getdents64, list, entries, sizeof entries);  // NOLINT(google-runtime-int)
    for (long at = 0; at < bytes;) {                                            // NOLINT(google-runtime-int)
      unsigned const fd = number_of(entries + at + kNameAt);
      if (fd != ~0U && fd >= first && fd != list) {
        let_go(fd, on_exec);
      }
      at += *reinterpret_cast<std::uint16_t const*>(entries + at + kLengthAt);
    }
    if (bytes <= 0) {
      syscall(SYS_close, list);
      return bytes == 0;
    }
  }
}

// close_range fails with ENOSYS before Linux 5.9, with EINVAL for the flag before 5.11, and if a filter forbids it.
CXXRUN_CHILD_CODE void let_go_from(unsigned first, bool on_exec) {
  if (syscall(SYS_close_range, first, ~0U, on_exec ? CLOSE_RANGE_CLOEXEC : 0U) == 0 ||
      let_go_of_listed(first, on_exec)) {
    return;
  }
  unsigned const most = most_descriptors();
  for (unsigned fd = first; fd < most; ++fd) {
    let_go(fd, on_exec);
  }
}

constexpr std::size_t kStackBytes = std::size_t{64} * 1024;
constexpr std::size_t kKernelSigsetBytes = 8;
constexpr int kMoreLikely = 100;  // of 1000, which stand for all memory
constexpr int kMostLikely = 1000;

// Written by a child that could not execute its program. It goes through a pipe, which a successful exec closes: an
// emulator of another processor turns vfork into fork, so the child may not share our memory or make us wait.
struct FailedStart {
  int error = 0;
  SpawnStage stage = SpawnStage::exec;
};

// Everything that the child needs, prepared before it exists: it may share our memory, so it must not allocate, lock,
// or call anything that a sanitizer intercepts.
struct ChildPlan {
  char const* path = nullptr;
  char* const* argv = nullptr;
  char* const* environment = nullptr;
  char const* directory = nullptr;
  int fds[3] = {-1, -1, -1};            // NOLINT(modernize-avoid-c-arrays): no library call in the child
  unsigned long const* cpus = nullptr;  // NOLINT(google-runtime-int): the kernel's words of a CPU mask
  std::size_t cpu_bytes = 0;            // 0: leave the CPUs alone
  bool set_nofile = false;
  rlimit nofile{};
  char oom_score[8] = {};  // NOLINT(modernize-avoid-c-arrays): no library call in the child
  std::size_t oom_digits = 0;
  int const* keep = nullptr;
  std::size_t kept = 0;
  pid_t parent = 0;
  int report = -1;  // the pipe's end for a FailedStart
};

[[noreturn]] CXXRUN_CHILD_CODE void give_up(ChildPlan* plan, SpawnStage stage) {
  FailedStart const failed{errno, stage};
  syscall(SYS_write, plan->report, &failed, sizeof failed);
  for (;;) {
    syscall(SYS_exit, 127);
  }
}

// Ignored signals survive an exec, and the launcher ignores SIGPIPE. Zeroes mean SIG_DFL, no flags and an empty mask in
// the kernel's own layout. Signals that cannot be set (KILL, STOP) fail harmlessly.
CXXRUN_CHILD_CODE void reset_dispositions() {
  unsigned long defaults[8] = {};  // NOLINT(google-runtime-int,modernize-avoid-c-arrays): struct kernel_sigaction
  for (int signal = 1; signal < 65; ++signal) {
    syscall(SYS_rt_sigaction, signal, defaults, nullptr, kKernelSigsetBytes);
  }
}

CXXRUN_CHILD_CODE void place_descriptor(ChildPlan* plan, int target) {
  int source = plan->fds[target];
  if (source < 0) {
    source =
        static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/dev/null", (target == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC));
    if (source < 0) {
      give_up(plan, SpawnStage::descriptors);
    }
  }
  long const done = source == target ? syscall(SYS_fcntl, target, F_SETFD, 0) : syscall(SYS_dup3, source, target, 0);
  if (done < 0) {
    give_up(plan, SpawnStage::descriptors);
  }
}

// Makes the kernel kill this process before the agent when memory runs out, so that the agent can report it. Raising
// the score needs no privilege. A child of vfork has its own score even before its exec.
CXXRUN_CHILD_CODE void prefer_for_oom(ChildPlan* plan) {
  int const file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (file >= 0) {
    syscall(SYS_write, file, plan->oom_score, plan->oom_digits);
    syscall(SYS_close, file);
  }
}

CXXRUN_CHILD_CODE int child_main(void* argument) {
  auto* plan = static_cast<ChildPlan*>(argument);
  if (syscall(SYS_setsid) < 0 || syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
    give_up(plan, SpawnStage::session);
  }
  if (syscall(SYS_getppid) != plan->parent) {  // the launcher died before PDEATHSIG was set
    errno = ESRCH;
    give_up(plan, SpawnStage::session);
  }
  if (plan->directory != nullptr && syscall(SYS_chdir, plan->directory) < 0) {
    give_up(plan, SpawnStage::directory);
  }
  for (int target = 0; target < 3; ++target) {
    place_descriptor(plan, target);
  }
  close_on_exec_from(3);  // all descriptors of ours are CLOEXEC, but those of a library may not be
  for (std::size_t i = 0; i < plan->kept; ++i) {
    syscall(SYS_fcntl, plan->keep[i], F_SETFD, 0);
  }
  if (plan->cpu_bytes > 0 && syscall(SYS_sched_setaffinity, 0, plan->cpu_bytes, plan->cpus) < 0) {
    give_up(plan, SpawnStage::cpus);
  }
  if (plan->set_nofile) {
    syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &plan->nofile, nullptr);
  }
  prefer_for_oom(plan);
  reset_dispositions();
  unsigned long const none = 0;  // NOLINT(google-runtime-int)
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, kKernelSigsetBytes);
  syscall(SYS_execve, plan->path, plan->argv, plan->environment);
  give_up(plan, SpawnStage::exec);
}

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer's clone takes the child for a process with memory of its own and spoils ours.
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);  // NOLINT: glibc's own name
int vfork_on(void* stack_top, int flags, ChildPlan* plan) {
  return __clone(child_main, stack_top, flags, plan);
}
#else
int vfork_on(void* stack_top, int flags, ChildPlan* plan) {
  return clone(child_main, stack_top, flags, plan);
}
#endif

std::vector<char*> pointers_to(std::vector<std::string> const& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (auto const& text : strings) {
    pointers.push_back(
        const_cast<char*>(text.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast): execve's type
  }
  pointers.push_back(nullptr);
  return pointers;
}

using CpuMask = std::vector<unsigned long>;  // NOLINT(google-runtime-int): the kernel's own layout

CpuMask mask_of(std::vector<std::uint32_t> const& cpus) {
  constexpr std::size_t kBits = sizeof(CpuMask::value_type) * 8;
  CpuMask mask;
  for (auto const cpu : cpus) {
    mask.resize(std::max<std::size_t>(mask.size(), cpu / kBits + 1));
    mask[cpu / kBits] |= CpuMask::value_type{1} << (cpu % kBits);
  }
  return mask;
}

ChildPlan plan_child(SpawnRequest const& request, char* const* argv, char* const* environment) {
  ChildPlan plan;
  plan.path = request.path.c_str();
  plan.argv = argv;
  plan.environment = environment;
  plan.directory = request.directory.empty() ? nullptr : request.directory.c_str();
  plan.fds[0] = request.in;
  plan.fds[1] = request.out;
  plan.fds[2] = request.err;
  plan.keep = request.keep.data();
  plan.kept = request.keep.size();
  plan.parent = getpid();
  if (auto const own = number_in<int>(trim(read_text("/proc/self/oom_score_adj")))) {
    auto const score = std::to_string(std::min(kMostLikely, *own + kMoreLikely));
    plan.oom_digits = score.copy(plan.oom_score, sizeof plan.oom_score);
  }
  if (request.nofile_soft && getrlimit(RLIMIT_NOFILE, &plan.nofile) == 0) {
    plan.set_nofile = true;
    plan.nofile.rlim_cur = std::min<rlim_t>(*request.nofile_soft, plan.nofile.rlim_max);
  }
  return plan;
}

// 0 when `path` is a file that we may execute, else the errno.
int executable_error(std::string const& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return errno;
  }
  if (!S_ISREG(info.st_mode)) {
    return EACCES;
  }
  bool const may = faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ||
                   (errno == EPERM && access(path.c_str(), X_OK) == 0);  // a filter that forbids faccessat2
  return may ? 0 : EACCES;
}

std::string_view search_path(std::vector<std::string> const& environment) {
  for (std::string_view const entry : environment) {
    if (entry.starts_with("PATH=")) {
      return entry.substr(5);
    }
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

}  // namespace

CXXRUN_CHILD_CODE void close_from(unsigned first) {
  let_go_from(first, false);
}

CXXRUN_CHILD_CODE void close_on_exec_from(unsigned first) {
  let_go_from(first, true);
}

SpawnResult spawn(SpawnRequest const& request) {
  auto const argv = pointers_to(request.argv);
  auto const environment = pointers_to(request.environment);
  ChildPlan plan = plan_child(request, argv.data(), environment.data());
  auto const mask = mask_of(request.cpus);
  plan.cpus = mask.data();
  plan.cpu_bytes = mask.size() * sizeof(CpuMask::value_type);
  // A stack of its own: the child may run in our memory, but must not touch our frames.
  auto const stack = map_memory(kStackBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK);
  if (!stack) {
    return {0, errno, SpawnStage::fork};
  }
  Pipe report = make_pipe();
  if (!report) {
    return {0, errno, SpawnStage::descriptors};
  }
  plan.report = report.write.get();
  // No handler of ours may run in the child, where it would change our memory.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t const pid = vfork_on(static_cast<char*>(stack.get()) + kStackBytes, CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
  int const fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    return {0, fork_error, SpawnStage::fork};
  }
  report.write.reset();
  FailedStart failed;
  if (retried([&] { return read(report.read.get(), &failed, sizeof failed); }) == static_cast<ssize_t>(sizeof failed)) {
    static_cast<void>(retried([&] { return waitpid(pid, nullptr, 0); }));
    return {0, failed.error, failed.stage};
  }
  return {pid, 0, SpawnStage::exec};
}

FoundProgram find_program(std::string const& name, std::vector<std::string> const& environment) {
  if (name.empty()) {
    return {name, ENOENT};
  }
  if (name.find('/') != std::string::npos) {
    return {name, executable_error(name)};
  }
  std::string forbidden;
  for (std::string const& entry : split(search_path(environment), ':')) {
    std::string const path = (entry.empty() ? "." : entry) + "/" + name;  // empty: the working directory
    int const why = executable_error(path);
    if (why == 0) {
      return {path, 0};
    }
    if (why == EACCES && forbidden.empty()) {
      forbidden = path;
    }
  }
  return forbidden.empty() ? FoundProgram{name, ENOENT} : FoundProgram{forbidden, EACCES};
}

Result<PipedProgram> spawn_piped(std::vector<std::string> argv, std::vector<std::string> environment) {
  SpawnRequest request;
  request.argv = std::move(argv);
  request.environment = std::move(environment);
  std::string const name = request.argv.front();
  auto found = find_program(name, request.environment);
  if (found.error != 0) {
    return fail(Errc::not_found, "there is no " + name + " in PATH here");
  }
  request.path = std::move(found.path);
  Pipe output = make_pipe();
  if (!output) {
    return fail(Errc::io, "cannot make a pipe for " + name, errno);
  }
  request.out = request.err = output.write.get();
  auto const started = spawn(request);
  if (!started.ok()) {
    return fail(Errc::io, explain_failed_start(name, started.stage, started.error));
  }
  return PipedProgram{started.pid, std::move(output.read)};
}

std::string explain_failed_start(std::string const& name, SpawnStage stage, int error) {
  std::string const start = "cannot start '" + name + "': ";
  if (stage == SpawnStage::directory) {
    return start + "cannot enter its working directory: " + std::strerror(error);
  }
  if (stage == SpawnStage::cpus) {
    return start + "cannot bind it to its CPUs: " + std::strerror(error) + "; --cpu-bind none leaves them alone";
  }
  if (error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE) {
    return explain_refusal("cannot start '" + name + "'", error);
  }
  if (stage == SpawnStage::descriptors) {
    return start + "cannot open /dev/null for it: " + std::strerror(error);
  }
  if (error == E2BIG) {
    return start +
           "its arguments and environment are longer than a quarter of `ulimit -s`; raise that, or shorten them";
  }
  if (error == ENOENT && stage == SpawnStage::exec) {
    return start + "the interpreter in its first line, or the loader it is linked to, does not exist";
  }
  if (error == ENOENT && name.find('/') == std::string::npos) {
    return start + "no such program in PATH; for a file in the working directory write './" + name + "'";
  }
  if (error == ENOEXEC) {
    return start + "not an executable format for this processor; a script must begin with '#!' and its interpreter";
  }
  if (error == EACCES) {
    return start + std::string(kNotExecutable);
  }
  return start + std::strerror(error) + (error == ENOENT ? std::string(kIsItThere) : "");
}

}  // namespace cxxrun::os
