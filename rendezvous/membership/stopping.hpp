// Stopping: from trouble to the end of a generation. The half of membership that takes down; forming.hpp is the half
// that builds up, membership.cpp the one that reacts. Private to the three.
#pragma once

#include "rendezvous/membership/forming.hpp"

namespace cxxrun::rendezvous {

/// Forgets an agent: it is neither member nor spare any more.
void drop(State& state, AgentId agent);
/// Remembers that a node went away in mid-generation.
void count_loss(State& state, NodeInfo const& node);
/// Remembers that a node of the step is gone until it joins again.
void mark_dead(State& state, NodeInfo const& node);
/// Tells every member to stop. `reason` is the first event; the cause is fixed when all have answered.
void begin_stopping(Turn& turn, StopReason reason);
/// One awaited member has stopped or is gone; after the last one the cause is fixed and what follows begins.
void answered(Turn& turn);
/// The members that have not answered in time are treated as lost, all of them before anything follows from it.
void drop_silent(Turn& turn);

}  // namespace cxxrun::rendezvous
