// StopOrder: how the workers of a generation are to be stopped.
#pragma once

#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// How to stop: the signal, then SIGKILL after `grace`; a process not reaped `kill_timeout` after that is unkillable.
struct StopOrder {
  int signal = 15;          ///< SIGTERM, or the user's own signal
  bool send_signal = true;  ///< false: somebody (Slurm) has signalled the workers already
  Millis grace{5000};
  Millis kill_timeout{60'000};
  bool park = false;  ///< workers that survive a generation are told that it is over, and kept once they have parked
  bool operator==(StopOrder const&) const = default;
};

}  // namespace cxxrun::launcher
