// HeldProcess: a process that a signal may be meant for, held so that a pid that was reused is not hit.
#pragma once

#include <cstdint>
#include <optional>
#include <sys/types.h>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// By a pidfd. Where there is none (before Linux 5.3, a filter that forbids it, no descriptor left) by pid and start
/// time, which are compared before each signal: another process is hit only if the pid is reused between these two
/// calls. Copies nothing; not thread-safe.
class HeldProcess {
 public:
  /// Nothing when there is no such process. Hold it first and check what it is then.
  [[nodiscard]] static std::optional<HeldProcess> hold(pid_t pid);

  /// Sends the signal; whether that process could take it.
  bool send(int signal) const;  // NOLINT(modernize-use-nodiscard): who asks may not care
  /// False once it has ended, reaped or not.
  [[nodiscard]] bool runs() const;
  /// Readable once it has ended; -1: ask runs() now and then.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  pid_t pid_ = 0;
  UniqueFd fd_;
  std::uint64_t start_ = 0;  ///< when there is no descriptor
};

}  // namespace cxxrun::os
