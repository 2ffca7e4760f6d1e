// Standstill: what an agent says of a worker whose collectives have not moved for a while. What Progress carries.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/worker/group_count.hpp"
#include "src/base/worker/loss.hpp"

namespace cxxrun::rendezvous {

/// Who stands still for so long is worth a line, whatever --hang-timeout says.
inline constexpr Millis kStandstillShown{60'000};

struct Standstill {
  std::uint32_t rank = 0;
  std::uint64_t entered = 0;  ///< collectives begun, of the generation's first Communicator
  std::uint64_t done = 0;     ///< of these; less than `entered`: it is inside the last one
  std::uint32_t what = 0;     ///< worker::packed() of the last one that it began
  std::uint64_t count = 0;    ///< its elements
  Millis still{0};            ///< for how long neither has changed; 0: it moves again, or is gone
  bool halted = false;        ///< its process is stopped (SIGSTOP, or by a debugger)
  bool idle = false;          ///< none of its collectives is under way, in any group; false: or it is not known
  std::vector<worker::GroupCount> groups = {};  ///< of PyTorch, but for the default one
  bool operator==(Standstill const&) const = default;
};

/// A worker that has parked, and whom it gave up. What Progress carries, too.
struct Named {
  std::uint32_t rank = 0;
  worker::Loss lost;
  bool operator==(Named const&) const = default;
};

}  // namespace cxxrun::rendezvous
