// Entering: a node that comes to a run, whichever way it came. Part of membership.
#pragma once

#include <optional>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Why this node may not enter; nothing: it may.
[[nodiscard]] std::optional<Refused> objection(State const& state, NodeInfo const& node, Policy const& policy);
/// A node may enter a running job when there is a seat, nobody is done yet and the last entry is long enough ago.
[[nodiscard]] Next consider_scale_out(Turn& turn);
/// The node is here, and part of what is formed next: now, soon if the job may grow, or later.
[[nodiscard]] Next come_in(Turn& turn, AgentId agent, NodeInfo const& node);
/// For the log: it waits, and until when if a seat is free.
void say_spare(Turn& turn, NodeInfo const& node);

}  // namespace cxxrun::rendezvous
