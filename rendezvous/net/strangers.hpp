// Strangers: callers of one listening socket that have not joined yet. Pure.
//
// They are few at any time, whoever calls. Beyond kMost one goes for each that comes: of those that have shown least,
// and of these the oldest from the address that most of them come from, so that a crowd drives out itself. Each has its
// time to say more, and until it is over whoever comes waits in the backlog: agents that come by the thousand drive out
// nobody. Cost: O(log N), and O(addresses) beyond kMost.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// What a caller has shown, in the order in which callers go.
enum class Shown : std::size_t {
  nothing,
  called,  ///< as agents do; with --auth none, anything
  proven,  ///< it knows the job's key
};

struct Strangers {
  static constexpr std::size_t kMost = 512;
  /// From so many on it is a crowd: whose the connections from this host are is looked at before anything is heard.
  static constexpr std::size_t kCrowd = 64;
  /// Their time. Who has called answers within a round trip, and may have a busy processor; an agent that has to ask
  /// munged first, and is late, knows the key when it calls again.
  static constexpr std::array<Millis, 3> kGrace = {Millis{20}, Millis{100}, Millis{1000}};
  struct Stranger {
    TimePoint since;
    Shown shown = Shown::nothing;
  };
  std::map<std::uint64_t, Stranger> all;  ///< by connection id, which are in the order of arrival
  std::array<std::map<std::string, std::set<std::uint64_t>>, 3> by_address;  ///< for each thing that they have shown
};

struct Admission {
  Millis hold{0};                     ///< how long the next caller has to wait in the backlog; 0: it may come
  std::optional<std::uint64_t> goes;  ///< who has to go for it
};

inline void come(Strangers& strangers, std::uint64_t id, std::string const& address, TimePoint now) {
  strangers.all.emplace(id, Strangers::Stranger{now, Shown::nothing});
  strangers.by_address[0][address].insert(id);
}
/// It is known, or gone.
inline void leave(Strangers& strangers, std::uint64_t id, std::string const& address) {
  auto const it = strangers.all.find(id);
  if (it == strangers.all.end()) {
    return;
  }
  auto& places = strangers.by_address.at(static_cast<std::size_t>(it->second.shown));
  auto const crowd = places.find(address);
  crowd->second.erase(id);
  if (crowd->second.empty()) {
    places.erase(crowd);
  }
  strangers.all.erase(it);
}
inline void speak(Strangers& strangers, std::uint64_t id, std::string const& address, Shown shown) {
  auto const it = strangers.all.find(id);
  if (it == strangers.all.end() || it->second.shown >= shown) {
    return;
  }
  TimePoint const since = it->second.since;
  leave(strangers, id, address);
  strangers.all.emplace(id, Strangers::Stranger{since, shown});
  strangers.by_address.at(static_cast<std::size_t>(shown))[address].insert(id);
}
[[nodiscard]] inline bool crowded(Strangers const& strangers) {
  return strangers.all.size() >= Strangers::kCrowd;
}

/// May one more come?
[[nodiscard]] inline Admission room(Strangers const& strangers, TimePoint now) {
  if (strangers.all.size() < Strangers::kMost) {
    return {};
  }
  auto const least = std::find_if(strangers.by_address.begin(), strangers.by_address.end(),
                                  [](auto const& places) { return !places.empty(); });
  auto const crowd = std::max_element(least->begin(), least->end(),
                                      [](auto const& a, auto const& b) { return a.second.size() < b.second.size(); });
  auto const oldest = *crowd->second.begin();
  auto const grace = Strangers::kGrace.at(static_cast<std::size_t>(least - strangers.by_address.begin()));
  auto const age = std::chrono::duration_cast<Millis>(now - strangers.all.at(oldest).since);
  if (age >= grace) {
    return {Millis{0}, oldest};
  }
  // A short nap at most: those who prove themselves meanwhile make room.
  return {std::min(grace - age, Millis{5}), std::nullopt};
}

}  // namespace cxxrun::rendezvous
