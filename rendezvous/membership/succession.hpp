// Succession: an elected coordinator takes the generation of the lost one over: who sat where, whose workers may still
// run. Part of membership.
#pragma once

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Elected, and nothing was accepted before: the members that promised keep their seats and stop their workers.
[[nodiscard]] Next take_over(Turn& turn);
/// A member that called later has promised too, before the next generation was formed: it keeps its seat.
[[nodiscard]] Next take_in(Turn& turn, AgentId agent);

}  // namespace cxxrun::rendezvous
