// Policy: the limits and durations that membership obeys; constant during a run.
#pragma once

#include <cstdint>

#include "rendezvous/protocol/messages.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// Terms is what the user asked for; the rest is set by us.
struct Policy : Terms {
  Millis join_spacing{60'000};   ///< least time between two generations triggered by joins; the first is free
  Millis join_together{2000};    ///< joins this soon after the first need not wait: nodes come back together
  Millis linger{5000};           ///< how long the coordinator waits for agents to leave at the end
  std::uint32_t flap_limit = 3;  ///< a node lost this often is refused
  Millis long_enough{30'000};    ///< a generation that has run for this long has lived, also without a step
  bool oom_kills_step = false;   ///< Slurm's OOMKillStep: out of memory, the kernel kills an agent with its workers
  bool ends_when_empty = false;  ///< no agent hosts the coordinator: the run ends when all agents have left
};

}  // namespace cxxrun::rendezvous
