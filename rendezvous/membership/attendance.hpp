// Attendance: how a node comes, and how it goes. Part of membership.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Why this node may not enter; nothing: it may.
[[nodiscard]] std::optional<Refused> objection(State const& state, NodeInfo const& node, Policy const& policy);
/// A node may enter a running job when there is a seat, nobody is done yet and the last entry is long enough ago.
[[nodiscard]] Next consider_scale_out(Turn& turn);
/// The node is here, and part of what is formed next: now, soon if the job may grow, or later.
[[nodiscard]] Next come_in(Turn& turn, AgentId agent, NodeInfo const& node);
/// It had been left out, and has its workers again: as if it came.
[[nodiscard]] Next hear(Turn& turn, AgentId agent, Complete const& message);
/// For the log: it waits, and until when if a seat is free.
void say_spare(Turn& turn, NodeInfo const& node);
/// An agent's connection has ended, or it was silent for too long.
[[nodiscard]] Next lose(Turn& turn, Lost const& event);
/// One agent was told to end. The job goes on without it when it is elastic and neither the coordinator's own node
/// nor too many leave; else it ends for all.
[[nodiscard]] Next leave(Turn& turn, AgentId agent, Leaving const& how);
/// A node's health check failed: it takes no part in the job any more, and the others form without it. The check may
/// belong to an earlier generation than the current one; no workers run on a node that checks.
[[nodiscard]] Next exclude_unfit(Turn& turn, AgentId agent, std::string const& why);

}  // namespace cxxrun::rendezvous
