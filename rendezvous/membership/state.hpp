// State: what membership knows. Values only; each part has its header.
#pragma once

#include <cstdint>
#include <optional>

#include "rendezvous/membership/budget.hpp"
#include "rendezvous/membership/election.hpp"
#include "rendezvous/membership/group.hpp"
#include "rendezvous/membership/hanging.hpp"
#include "rendezvous/membership/leases.hpp"
#include "rendezvous/membership/roster.hpp"
#include "rendezvous/values/verdict.hpp"
#include "rendezvous/voting/proposer.hpp"
#include "rendezvous/voting/silence.hpp"

namespace cxxrun::rendezvous {

enum class Phase {
  standby,     ///< another agent coordinates; survivors of its loss may call here already
  electing,    ///< this agent campaigns: waiting for promises
  forming,     ///< collecting agents
  opening,     ///< members chosen; the store is being opened
  preparing,   ///< members have been told; waiting for their acks
  proposing,   ///< all are ready: the decree is being voted on by the members of the generation before
  lease_wait,  ///< decided; waiting until no older worker can be alive, and for authority over the new generation
  running,     ///< workers run
  stopping,    ///< members stop their workers; the cause is decided when all have
  finished,    ///< verdict given; waiting for agents to leave
  deposed,     ///< authority lost to another coordinator or to a cut: decides nothing any more
};

/// When something is to happen by itself.
struct Timers {
  std::optional<TimePoint> join;       ///< forming: too few nodes at
  std::optional<TimePoint> window;     ///< forming: go with who is there at
  std::optional<TimePoint> answer;     ///< electing to stopping, finished: give up waiting at
  std::optional<TimePoint> scale_out;  ///< running: a join waits for the spacing to pass
  std::optional<TimePoint> last_scale_out;
};

struct State {
  Phase phase = Phase::forming;
  std::uint64_t number = 0;  ///< last generation number given out
  bool ever_ran = false;
  Restarts restarts;
  Group group;  ///< the generation under way; taking over, until our first one is formed, the predecessor's
  Roster roster;
  Proposer proposer;
  Election election;
  Leases leases;
  Timers timers;
  SilenceState silence;  ///< agents whose beats are watched
  HangState hanging;     ///< running: workers whose collectives stand still
  std::optional<Verdict> verdict;
  bool closed = false;  ///< Close has been emitted
};

}  // namespace cxxrun::rendezvous
