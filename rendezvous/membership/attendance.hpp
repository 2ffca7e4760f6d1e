// Attendance: how a node joins, and how it leaves or is lost. Part of membership.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/membership/membership_turn.hpp"

namespace cxxrun::rendezvous {

/// Why this node may not join; nothing: it may.
[[nodiscard]] std::optional<Refused> objection(State const& state, NodeInfo const& node, Policy const& policy);
/// Stops the running generation to take in a node, if a seat is free, no member has succeeded yet and the last time is
/// long enough ago.
[[nodiscard]] Next consider_scale_out(Turn& turn);
/// Adds the node. It is part of the next generation: formed now, soon if the job may grow, or later.
[[nodiscard]] Next come_in(Turn& turn, AgentId agent, NodeInfo const& node);
/// A node that was left out has its workers again: as if it joined.
[[nodiscard]] Next handle(Turn& turn, AgentId agent, Complete const& message);
/// Logs that the node waits as a spare.
void say_spare(Turn& turn, NodeInfo const& node);
/// An agent's connection has ended, or it was silent for too long.
[[nodiscard]] Next lose(Turn& turn, Lost const& event);
/// One agent was told to end. The job goes on without it if MIN others stay and it is not the coordinator's own node;
/// else it ends for all.
[[nodiscard]] Next leave(Turn& turn, AgentId agent, Leaving const& how);
/// A node's health check failed: it is excluded, and the others form without it. The check may be of an earlier
/// generation; no workers run on a node while it checks.
[[nodiscard]] Next exclude_unfit(Turn& turn, AgentId agent, std::string const& why);

}  // namespace cxxrun::rendezvous
