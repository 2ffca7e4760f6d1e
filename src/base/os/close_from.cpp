#include "src/base/os/close_from.hpp"

#include <cstdint>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/os/child_code.hpp"

namespace cxxrun::os {
namespace {

constexpr unsigned kMostWithoutProc = 1U << 20U;  // without /proc each number is tried: about 60 ns

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

// The number that a name is; ~0U for "." and "..".
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

// False when /proc cannot tell which are open. The kernel lists them by number, so that one that is closed meanwhile
// hides none behind it.
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

// ENOSYS before Linux 5.9, EINVAL for the flag before 5.11, and a filter may forbid it.
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

}  // namespace

CXXRUN_CHILD_CODE void close_from(unsigned first) {
  let_go_from(first, false);
}

CXXRUN_CHILD_CODE void close_on_exec_from(unsigned first) {
  let_go_from(first, true);
}

}  // namespace cxxrun::os
