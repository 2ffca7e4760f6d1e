// Ending: hears that a generation is over while nothing is called. Shell.
#pragma once

#include <cstdint>

#include "src/base/core/time.hpp"
#include "src/base/worker/agent_link.hpp"
#include "src/runtime/client/interruption.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::client {

/// Of the generation that is there when it is made. Threads: wait() by one.
struct Ending {
  Interruption over{};
  std::uint64_t generation = 0;
  worker::AgentLink::Watch watch{};  ///< raises `over`, and is gone before it

  /// For at most so long. Throws PeerFailure (stopped) when the generation is over; without an agent it never is.
  void wait(Millis most) const {
    auto const began = Clock::now();
    if (over.wait(most)) {
      host::throw_failure(host::stopped_by_launcher(), generation, began);
    }
  }
};

}  // namespace cxxrun::client
