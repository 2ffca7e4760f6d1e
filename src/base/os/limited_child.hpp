// LimitedChild: work in a child of this process, because a driver, a name server or a file system that hangs blocks
// whoever asks. Shell.
#pragma once

#include <functional>
#include <string>
#include <sys/types.h>

#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// Runs at once and dies with us. Only for a process that has no thread but this one: the child goes on in a copy of
/// it.
class LimitedChild {
 public:
  /// `work` may say its results bit by bit: what it says is there even if it never comes to its end.
  using Say = std::function<void(std::string const&)>;
  explicit LimitedChild(std::function<void(Say const&)> const& work);
  LimitedChild(LimitedChild&&) = default;
  LimitedChild& operator=(LimitedChild&&) = default;
  LimitedChild(LimitedChild const&) = delete;
  LimitedChild& operator=(LimitedChild const&) = delete;
  /// Kills it, if it has not ended. One that hangs in the kernel is left behind.
  ~LimitedChild();

  struct Words {
    std::string said;
    bool ended = false;  ///< by itself, before the deadline
    std::string error;   ///< why there is no child; "": there is one
  };
  /// Waits for its end or the deadline.
  [[nodiscard]] Words wait_until(TimePoint deadline);

 private:
  pid_t pid_ = 0;
  std::string error_;
  UniqueFd output_;
};

}  // namespace cxxrun::os
