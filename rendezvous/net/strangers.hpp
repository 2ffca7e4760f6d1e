// Strangers: callers of one listening socket that have not said yet who they are. Pure.
//
// They are few at any time, whoever calls. Beyond kMost one goes for each that comes: of those that have said nothing
// the oldest from the address that most of them come from, so that a crowd drives out itself. Once all have spoken the
// oldest goes as soon as it has had kGrace to prove itself, and until then whoever comes waits in the backlog: agents
// that come by the thousand drive out nobody. Cost: O(log N), and O(addresses) beyond kMost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "src/core/time.hpp"

namespace cxxrun::rendezvous {

struct Strangers {
  static constexpr std::size_t kMost = 512;
  static constexpr Millis kGrace{1000};
  std::map<std::uint64_t, TimePoint> since;                 ///< by connection id, which are in the order of arrival
  std::map<std::string, std::set<std::uint64_t>> unspoken;  ///< those that have said nothing yet, by address
};

struct Admission {
  Millis hold{0};                     ///< how long the next caller has to wait in the backlog; 0: it may come
  std::optional<std::uint64_t> goes;  ///< who has to go for it
};

inline void come(Strangers& strangers, std::uint64_t id, std::string const& address, TimePoint now) {
  strangers.since.emplace(id, now);
  strangers.unspoken[address].insert(id);
}
inline void speak(Strangers& strangers, std::uint64_t id, std::string const& address) {
  if (auto const it = strangers.unspoken.find(address); it != strangers.unspoken.end()) {
    it->second.erase(id);
    if (it->second.empty()) {
      strangers.unspoken.erase(it);
    }
  }
}
/// It is known, or gone.
inline void leave(Strangers& strangers, std::uint64_t id, std::string const& address) {
  speak(strangers, id, address);
  strangers.since.erase(id);
}

/// May one more come?
[[nodiscard]] inline Admission room(Strangers const& strangers, TimePoint now) {
  if (strangers.since.size() < Strangers::kMost) {
    return {};
  }
  auto const crowd = std::max_element(strangers.unspoken.begin(), strangers.unspoken.end(),
                                      [](auto const& a, auto const& b) { return a.second.size() < b.second.size(); });
  if (crowd != strangers.unspoken.end()) {
    return {Millis{0}, *crowd->second.begin()};
  }
  auto const [oldest, since] = *strangers.since.begin();
  auto const age = std::chrono::duration_cast<Millis>(now - since);
  if (age >= Strangers::kGrace) {
    return {Millis{0}, oldest};
  }
  // A short nap at most: those who prove themselves meanwhile make room.
  return {std::min(Strangers::kGrace - age, Millis{5}), std::nullopt};
}

}  // namespace cxxrun::rendezvous
