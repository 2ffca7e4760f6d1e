// Leaving: how one agent goes: lost, told to end, or excluded. Part of membership.
#pragma once

#include <string>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// An agent's connection has ended, or it was silent for too long.
[[nodiscard]] Next lose(Turn& turn, Lost const& event);
/// One agent was told to end. The job goes on without it when it is elastic and neither the coordinator's own node
/// nor too many leave; else it ends for all.
[[nodiscard]] Next leave(Turn& turn, AgentId agent, int signal);
/// A node's health check failed: it takes no part in the job any more, and the others form without it. The check may
/// belong to an earlier generation than the current one; no workers run on a node that checks.
[[nodiscard]] Next exclude_unfit(Turn& turn, AgentId agent, std::string const& why);

}  // namespace cxxrun::rendezvous
