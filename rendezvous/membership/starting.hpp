// Starting: from "decided" to "runs". Part of membership. Rules: docs/design/election.md.
#pragma once

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

[[nodiscard]] Next begin_lease_wait(Turn& turn);
/// In phase lease_wait: starts when no older worker can be alive and authority over the new generation is there.
[[nodiscard]] Next try_start(Turn& turn);
/// Tells all to start.
void begin_running(Turn& turn);

}  // namespace cxxrun::rendezvous
