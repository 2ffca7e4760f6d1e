// HangState: what the coordinator knows of ranks that stand still (hanging.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "rendezvous/values/standstill.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

struct HangState {
  struct Seen {
    Standstill last;
    std::string host;
    TimePoint since;  ///< by the coordinator's clock: when it stopped moving
  };
  std::map<std::uint32_t, Seen> ranks;  ///< who stands still
  std::set<std::uint32_t> ordered;      ///< who is to be killed; one that moves after all may be again
  std::string said;                     ///< what the last line was about; "" = nothing is wrong
  std::optional<TimePoint> due;         ///< when `judge` is to be called
};

}  // namespace cxxrun::rendezvous
