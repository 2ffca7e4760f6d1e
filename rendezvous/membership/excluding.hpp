// Excluding: takes nodes out of the job because of their failures or because a person wants it, and brings them back.
// Part of membership.
#pragma once

#include <string>

#include "rendezvous/membership/membership_turn.hpp"

namespace cxxrun::rendezvous {

/// Takes a present node out of the job: it gets no seat, is told only the end, and is refused when its agent is started
/// again. It stays connected, because Slurm may end a step when one of its tasks leaves early.
void exclude(Turn& turn, AgentId agent, std::string const& why);

/// Why members of the generation that runs are not drained although a person wants it; "": they are. `name`: of their
/// host, with or without its domain; all agents of that host are meant.
[[nodiscard]] std::string objection_to_drain(State const& state, std::string const& name, Policy const& policy);
/// Stops the generation; then these members are excluded for `why`, and the others form the next one.
[[nodiscard]] Next stop_to_drain(Turn& turn, std::string const& name, std::string const& why);

/// Whether a present node has no seat and could take one.
[[nodiscard]] bool has_spare(State const& state);

/// A worker failure ended the generation; `cause` is the first one. Calls back nodes that it shows not to be at fault.
/// Excludes its own node if that is at fault again, enough others are here and the job `goes_on`. The coordinator's own
/// node is never excluded for failures: the job would lose more than a seat.
void judge_nodes(Turn& turn, Failure const& cause, bool goes_on);

/// Whether a present node, other than the coordinator's own, has enough faults to be excluded.
[[nodiscard]] bool has_known_bad(State const& state);
/// Excludes such nodes while enough others are here.
void set_aside_known_bad(Turn& turn);

/// With too few nodes left, calls back nodes that were excluded for their failures: better than none.
void call_back_if_too_few(Turn& turn);

/// Group ranks whose nodes could not start the program while nodes of the same role could, and why: the node is at
/// fault. Empty if the program is at fault, if too few others are here, or if the coordinator's own node is one of
/// them.
[[nodiscard]] std::map<std::uint32_t, std::string> start_faults(State const& state, Policy const& policy);

}  // namespace cxxrun::rendezvous
