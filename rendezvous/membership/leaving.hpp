// Leaving: how one agent goes: lost, told to end, or set aside. Part of membership; private to it.
#pragma once

#include <string>

#include "rendezvous/membership/forming.hpp"

namespace cxxrun::rendezvous {

/// The agent's seat in the generation last formed; nullptr: it has none.
[[nodiscard]] Seat* find_seat(State& state, AgentId agent);

/// An agent's connection has ended, or it was silent for too long.
void lose(Turn& turn, Lost const& event);

/// A member has gone (it is dropped already): what follows from it in each phase.
void lose_seat(Turn& turn, Seat& seat, std::string const& how);

/// A node leaves the job, and is told so by `last_word`: at once, or, where the members vote and it has a vote, when
/// the next generation is decided. It counts as gone from now on in everything else.
void part(Turn& turn, AgentId agent, ToAgent last_word);

/// Those that have parted and have no vote (any more) hear their last word.
void dismiss(Turn& turn);

/// One agent was told to end. The job goes on without it when it is elastic and neither the coordinator's own host
/// nor too many leave; else it ends for all.
void leave(Turn& turn, AgentId agent, int signal);

/// A node's health check failed: it takes no part in the job any more, and the others form without it. The check may
/// belong to an earlier generation than the current one; no workers run on a node that checks.
void set_aside(Turn& turn, AgentId agent, std::string const& why);

}  // namespace cxxrun::rendezvous
