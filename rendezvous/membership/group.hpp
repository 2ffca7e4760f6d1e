// Group: the members of one generation, by group rank, and what became of each. Part of membership's State.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/agent_id.hpp"
#include "src/base/core/level.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// A member of the current generation, at its group rank.
struct Seat {
  AgentId agent = 0;
  NodeInfo node;
  std::uint32_t rank_base = 0;
  enum class Now { invited, ready, running, succeeded, stopped, lost } now = Now::invited;
  int leaving = 0;                ///< the signal by which its user told it to end; 0 = stays
  std::vector<WorkerExit> exits;  ///< as reported by Stopped
  std::vector<std::string> unkillable;
  bool lacks = false;  ///< as reported by Stopped
};

/// A worker failure in the order in which the coordinator heard of it.
struct Report {
  std::uint32_t group_rank = 0;
  WorkerExit exit;
};

/// Why the current generation is being stopped: the first event, not yet the cause.
struct StopReason {
  StopKind kind = StopKind::failure;
  int signal = 0;  ///< of a user's stop
  std::string why;
  Level level = Level::info;  ///< of the line that says so
};

struct Group {
  std::vector<Seat> seats;  ///< by group rank
  std::map<AgentId, std::uint32_t> seat_of;
  std::uint32_t awaited = 0;  ///< seats whose answer the phase still waits for
  std::vector<Report> reports;
  StopReason stop;
  std::optional<TimePoint> began;  ///< when it was told to start
  /// Node keys of members that were cut off with their work done, and may call to hear the verdict.
  std::set<std::string> unaware;
  bool lived = false;  ///< it has run for long enough, or a worker of it has completed a step
};

}  // namespace cxxrun::rendezvous
