// Strangers: callers of one listening socket that have not said yet who they are. Pure.
//
// They are few at any time, whoever calls: beyond kMost the oldest has to go as soon as it has had kGrace to speak, and
// until then whoever comes waits in the backlog. Agents that come by the thousand are let in as fast as they say hello,
// and nobody who says nothing keeps them out. Cost: O(log N).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "src/core/time.hpp"

namespace cxxrun::rendezvous {

struct Strangers {
  static constexpr std::size_t kMost = 512;
  static constexpr Millis kGrace{1000};
  std::map<std::uint64_t, TimePoint> since;  ///< by connection id, which are in the order of arrival
};

struct Admission {
  Millis hold{0};                     ///< how long the next caller has to wait in the backlog; 0: it may come
  std::optional<std::uint64_t> goes;  ///< who has to go for it
};

/// May one more come?
[[nodiscard]] inline Admission room(Strangers const& strangers, TimePoint now) {
  if (strangers.since.size() < Strangers::kMost) {
    return {};
  }
  auto const [oldest, since] = *strangers.since.begin();
  auto const age = std::chrono::duration_cast<Millis>(now - since);
  if (age >= Strangers::kGrace) {
    return {Millis{0}, oldest};
  }
  // A short nap at most: those who say hello meanwhile make room.
  return {std::min(Strangers::kGrace - age, Millis{5}), std::nullopt};
}

}  // namespace cxxrun::rendezvous
