// Children of this process that do what it must not do itself: work that may hang, clean-up after its end. Shell.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// Runs work in a child, because a driver, a name server or a file system that hangs would block this process. The
/// child starts at once and dies with us. Only for a process with a single thread: the child goes on in a copy of it.
class LimitedChild {
 public:
  /// `work` reports its results in parts, which arrive even if it never ends.
  using Say = std::function<void(std::string const&)>;
  explicit LimitedChild(std::function<void(Say const&)> const& work);
  LimitedChild(LimitedChild&&) = default;
  LimitedChild& operator=(LimitedChild&&) = default;
  LimitedChild(LimitedChild const&) = delete;
  LimitedChild& operator=(LimitedChild const&) = delete;
  /// Kills the child if it has not ended. A child that hangs in the kernel is left behind.
  ~LimitedChild();

  struct Words {
    std::string said;
    bool ended = false;  ///< by itself, before the deadline
    std::string error;   ///< why there is no child; "" if there is one
  };
  /// Waits for the end of the child or the deadline.
  [[nodiscard]] Words wait_until(TimePoint deadline);

 private:
  pid_t pid_ = 0;
  std::string error_;
  UniqueFd output_;
};

/// Removes files that this process has made in directories of others, even if a signal kills the process. A child in a
/// session of its own, which the terminal's signals do not reach, does it. Only for a process with a single thread. If
/// no child can be started, nothing is removed.
class Caretaker {
 public:
  Caretaker();
  /// Waits at most 2 s for the child, because a file system may hang.
  ~Caretaker();
  Caretaker(Caretaker const&) = delete;
  Caretaker& operator=(Caretaker const&) = delete;

  /// Has a file, or a directory and all in it, removed once this process and its forked children have ended or
  /// destroyed their Caretaker. Forked children may call it, too.
  void remove_at_end(std::string const& path) const;

 private:
  pid_t pid_ = 0;
  UniqueFd told_;
  UniqueFd ended_;  ///< end of file once the child has ended
};

/// What a probe has found at one path.
struct SeenPath {
  int error = 0;  ///< errno of statfs, open, or reading a byte
  bool full = false;
};

/// A child that looks at paths one after the other, because a file system whose server is gone blocks every process
/// that looks. It holds no descriptor of ours but the pipe, and dies with us. A child that hangs survives SIGKILL: do
/// not wait for it.
struct PathProbe {
  pid_t pid = 0;
  UniqueFd output;
};
/// Nothing when no child can be made. Call it on the thread that starts processes.
[[nodiscard]] std::optional<PathProbe> start_probe(std::vector<std::string> const& paths);
/// The results so far, in the order of the paths. Never blocks.
[[nodiscard]] std::vector<SeenPath> read_probe(PathProbe const& probe);

}  // namespace cxxrun::os
