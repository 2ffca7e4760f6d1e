// Succession: an elected coordinator takes the generation of the lost one over: who sat where, whose workers may still
// run. Part of membership; private to it.
#pragma once

#include "rendezvous/membership/forming.hpp"

namespace cxxrun::rendezvous {

/// Elected, and nothing was accepted before: the members that promised keep their seats and stop their workers.
void take_over(Turn& turn);
/// A member that called later has promised too, before the next generation was formed: it keeps its seat.
void take_in(Turn& turn, AgentId agent);
/// The generation that was to follow cannot run, and its number is used up: the seats are those taken over again, for
/// members that call late.
void restore_seats(State& state);

}  // namespace cxxrun::rendezvous
