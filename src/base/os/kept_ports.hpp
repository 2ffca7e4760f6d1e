// KeptPorts: listening sockets that an agent leaves with its parent, which outlives it. As long as one of the two holds
// a socket nobody else can listen at its port (docs/design/supervision.md).
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// The agent's end of the way to its parent. Nothing here blocks. Not thread-safe.
class PortKeeper {
 public:
  explicit PortKeeper(UniqueFd channel) : channel_(std::move(channel)) {}

  /// The parent holds a copy of `listener` from now on, and `hold` longer than this agent lives. Errc::io, also when
  /// the parent has been stopped for long.
  [[nodiscard]] Result<void> keep(int listener, Millis hold);
  /// Nobody calls there any more: the parent lets go of all of them.
  void release();
  /// As KeptPorts::hold, where this agent outlives its parent.
  [[nodiscard]] Millis hold() const { return kept_.empty() ? Millis{0} : hold_; }
  /// To others it looks as if this process had ended: all its connections have, and at its other ports calls are
  /// refused. What is kept listens on.
  void hang_up_on_all() const;

 private:
  UniqueFd channel_;
  std::vector<ino_t> kept_;
  Millis hold_{0};
};

/// The parent's.
class KeptPorts {
 public:
  static constexpr std::size_t kMost = 32;  ///< sockets; then the oldest one goes

  KeptPorts() = default;
  explicit KeptPorts(UniqueFd channel) : channel_(std::move(channel)) {}

  /// Readable when there is something to take; -1 once the agent has ended.
  [[nodiscard]] int fd() const { return channel_.get(); }
  void take();
  /// For how long after the end of the agent; 0: nothing is held.
  [[nodiscard]] Millis hold() const { return sockets_.empty() ? Millis{0} : hold_; }

 private:
  UniqueFd channel_;
  std::deque<UniqueFd> sockets_;
  Millis hold_{0};
};

/// The two ends, close-on-exec. Errc::io.
struct PortKeeping {
  std::shared_ptr<PortKeeper> agent;
  KeptPorts parent;
};
[[nodiscard]] Result<PortKeeping> keep_ports();

}  // namespace cxxrun::os
