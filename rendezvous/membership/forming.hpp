// Forming: from agents present to a running generation. The half of membership that builds up; membership.cpp is the
// half that reacts and takes down. Private to the two.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/membership/membership.hpp"

namespace cxxrun::rendezvous {

using Turn = BasicTurn<State, Action, Policy>;

/// Enters phase forming with fresh deadlines and looks whether the generation can be formed at once.
void begin_forming(Turn& turn);
/// The generation that was being made, decided already or not, cannot run: its members hear so, and the next is formed.
void form_again(Turn& turn);
/// Forms the generation when everybody who can come has come; arms the window when MIN has.
void consider_forming(Turn& turn);
/// The join window or the join timeout may have passed.
void forming_tick(Turn& turn);
/// The store is open: tells every member its part.
void begin_preparing(Turn& turn, StoreOpened const& store);
/// Spares and newcomers hear which generation runs and who may succeed its coordinator, where somebody may.
void tell_decided(Turn& turn, AgentId agent);
/// Decided, and no older worker is left: tells all to start.
void begin_running(Turn& turn);
/// Ends a run that everybody has left, when the policy says so.
void end_if_abandoned(Turn& turn);
/// Gives the verdict, tells everybody, waits for them to leave.
void conclude(Turn& turn, Verdict verdict);
/// The coordinator may go.
void close(Turn& turn);
/// After the verdict: closes when the last agent has left and none of the step is still to come.
void close_if_alone(Turn& turn);

}  // namespace cxxrun::rendezvous
