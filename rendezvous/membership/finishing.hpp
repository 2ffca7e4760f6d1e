// Finishing: the verdict is given, and everybody leaves. Part of membership.
#pragma once

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Tells everybody the verdict, and waits for them to leave.
void begin_finishing(Turn& turn, Verdict verdict);
/// The coordinator may go.
void close(Turn& turn);
/// After the verdict: closes when the last agent has left and none of the step is still to come.
void close_if_alone(Turn& turn);

}  // namespace cxxrun::rendezvous
