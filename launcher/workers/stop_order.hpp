// StopOrder: how to stop the workers of a generation. Pure.
#pragma once

#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// First the signal, then SIGKILL after `grace`. A process that is not reaped `kill_timeout` later is unkillable.
struct StopOrder {
  int signal = 15;          ///< SIGTERM, or the user's own signal
  bool send_signal = true;  ///< false: Slurm has signalled the workers already
  Millis grace{5000};
  Millis kill_timeout{60'000};
  bool park = false;  ///< surviving workers are told that the generation is over, and kept if they park in time
  bool operator==(StopOrder const&) const = default;
};

}  // namespace cxxrun::launcher
