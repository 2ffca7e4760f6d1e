// PendingConnections: the callers of one listening socket that have not joined yet, and a limit on them. Pure.
//
// When there are kMost, each new caller evicts one of those that have proven least: the oldest from the address that
// most of them come from, so that a flood evicts only itself. Each caller has a grace; until that is over new ones wait
// in the backlog, so that agents that come by the thousand evict nobody. Cost: O(log N), and O(addresses) at kMost.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// How much a caller has proven. Callers that have proven less are evicted first.
enum class CallerStage : std::size_t {
  nothing,
  called,  ///< it began the handshake of an agent; with --auth none, it sent anything
  proven,  ///< it knows the job's key
};

struct PendingConnections {
  static constexpr std::size_t kMost = 512;
  /// From this many on, the owner of each new connection from this host is checked before it is read.
  static constexpr std::size_t kCrowd = 64;
  /// Grace by stage. After its call an agent answers within a round trip, perhaps on a busy processor. If it
  /// has to ask munged first and is evicted, it has the key when it calls again.
  static constexpr std::array<Millis, 3> kGrace = {Millis{20}, Millis{100}, Millis{1000}};
  struct Caller {
    TimePoint since;
    CallerStage stage = CallerStage::nothing;
  };
  std::map<std::uint64_t, Caller> all;  ///< by connection id, hence in the order of arrival
  std::array<std::map<std::string, std::set<std::uint64_t>>, 3> by_address;  ///< index: their stage
};

struct Admission {
  Millis hold{0};                       ///< how long the next caller waits in the backlog; 0: accept it
  std::optional<std::uint64_t> evicts;  ///< close this connection first
};

inline void add(PendingConnections& pending, std::uint64_t id, std::string const& address, TimePoint now) {
  assert(!pending.all.contains(id));
  pending.all.emplace(id, PendingConnections::Caller{now, CallerStage::nothing});
  pending.by_address[0][address].insert(id);
}
/// The connection has joined, or is gone.
inline void remove(PendingConnections& pending, std::uint64_t id, std::string const& address) {
  auto const it = pending.all.find(id);
  if (it == pending.all.end()) {
    return;
  }
  auto& addresses = pending.by_address.at(static_cast<std::size_t>(it->second.stage));
  auto const crowd = addresses.find(address);
  crowd->second.erase(id);
  if (crowd->second.empty()) {
    addresses.erase(crowd);
  }
  pending.all.erase(it);
}
/// The caller has reached this stage; no effect if it was further already.
inline void advance(PendingConnections& pending, std::uint64_t id, std::string const& address, CallerStage stage) {
  auto const it = pending.all.find(id);
  if (it == pending.all.end() || it->second.stage >= stage) {
    return;
  }
  TimePoint const since = it->second.since;
  remove(pending, id, address);
  pending.all.emplace(id, PendingConnections::Caller{since, stage});
  pending.by_address.at(static_cast<std::size_t>(stage))[address].insert(id);
}
[[nodiscard]] inline bool crowded(PendingConnections const& pending) {
  return pending.all.size() >= PendingConnections::kCrowd;
}

/// Whether the next caller may come, and whom it evicts.
[[nodiscard]] inline Admission next_admission(PendingConnections const& pending, TimePoint now) {
  if (pending.all.size() < PendingConnections::kMost) {
    return {};
  }
  auto const least = std::find_if(pending.by_address.begin(), pending.by_address.end(),
                                  [](auto const& addresses) { return !addresses.empty(); });
  auto const crowd = std::max_element(least->begin(), least->end(),
                                      [](auto const& a, auto const& b) { return a.second.size() < b.second.size(); });
  auto const oldest = *crowd->second.begin();
  auto const grace = PendingConnections::kGrace.at(static_cast<std::size_t>(least - pending.by_address.begin()));
  auto const age = std::chrono::duration_cast<Millis>(now - pending.all.at(oldest).since);
  if (age >= grace) {
    return {Millis{0}, oldest};
  }
  // At most 5 ms: callers that prove themselves in that time make room.
  return {std::min(grace - age, Millis{5}), std::nullopt};
}

}  // namespace cxxrun::rendezvous
