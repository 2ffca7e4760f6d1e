// KernelLog: what the kernel has logged since this object was made, where it may be read. Shell.
#pragma once

#include <string>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {

class KernelLog {
 public:
  /// Opened, and not asked for with access(): its mode promises what the kernel then refuses. Nothing is logged about
  /// it.
  explicit KernelLog(char const* path = "/dev/kmsg");
  /// Its records since the last call, at most 1 MiB of them.
  [[nodiscard]] std::string read_new();

 private:
  UniqueFd file_;
};

}  // namespace cxxrun::os
