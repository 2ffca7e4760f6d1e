// Policies: what the options mean for the coordinator and for the agent. Pure.
#pragma once

#include "launcher/agent_fsm.hpp"
#include "launcher/options.hpp"
#include "launcher/topology.hpp"
#include "rendezvous/membership.hpp"

namespace cxxrun::launcher {

[[nodiscard]] rendezvous::Policy membership_policy(Options const& options, JobTopology const& topology);
[[nodiscard]] agent::Policy agent_policy(Options const& options);

}  // namespace cxxrun::launcher
