#include "src/base/os/standard_input.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "src/base/os/process_info.hpp"

namespace cxxrun::os {
namespace {

constexpr int kMostAncestors = 64;

}  // namespace

bool input_is_null() {
  struct stat facts {};
  return fstat(STDIN_FILENO, &facts) != 0 || (S_ISCHR(facts.st_mode) && facts.st_rdev == makedev(1, 3));
}

std::size_t waiting_input() {
  struct stat facts {};
  if (fstat(STDIN_FILENO, &facts) != 0) {
    return 0;
  }
  if (S_ISREG(facts.st_mode)) {
    return lseek(STDIN_FILENO, 0, SEEK_CUR) == 0 ? static_cast<std::size_t>(facts.st_size) : 0;
  }
  int bytes = 0;
  bool const stream = S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode);
  return stream && ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

bool reads_lines(std::string_view comm) {
  static constexpr std::array<std::string_view, 14> kNames{"bash", "sh",   "dash", "ash",  "zsh",  "ksh",   "mksh",
                                                           "fish", "tcsh", "csh",  "perl", "ruby", "tclsh", "busybox"};
  return std::find(kNames.begin(), kNames.end(), comm) != kNames.end() || comm.starts_with("python");
}

bool input_is_of_ancestor() {
  struct stat ours {};
  // Of a file that is still at its start nobody has read a line. dash redirects its own input for `command < file`.
  if (fstat(STDIN_FILENO, &ours) != 0 || (S_ISREG(ours.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0)) {
    return false;
  }
  pid_t pid = getppid();
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    struct stat theirs {};
    auto const path = "/proc/" + std::to_string(pid) + "/fd/0";
    if (stat(path.c_str(), &theirs) != 0 || theirs.st_dev != ours.st_dev || theirs.st_ino != ours.st_ino) {
      return false;
    }
    auto const process = read_stat(pid);
    if (!process || reads_lines(process->comm)) {
      return process.has_value();
    }
    pid = process->parent;
  }
  return false;
}

bool input_is_in_background() {
  pid_t const in_front = tcgetpgrp(STDIN_FILENO);  // -1: no controlling terminal of this session
  return in_front > 0 && in_front != getpgrp();
}

}  // namespace cxxrun::os
