// KernelLog: what the kernel has logged since this object was made, if this user may read it. Shell.
#pragma once

#include <string>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {

class KernelLog {
 public:
  /// Opens the log. access() would not tell whether it can be read, because the kernel may refuse what the mode allows.
  /// A log that cannot be read stays empty, without a message.
  explicit KernelLog(char const* path = "/dev/kmsg");
  /// The records since the last call, at most 1 MiB.
  [[nodiscard]] std::string read_new();

 private:
  UniqueFd file_;
};

}  // namespace cxxrun::os
