// How the ranks of a rail come to know each other: every pair connects, the lower node to the higher. Shell.
//
// Ranks may start in any order: whoever does not listen yet is tried again. Strangers on the listening port (port
// scanners, another job) are turned away and cannot hold anything up.
#pragma once

#include "src/host/rails/rail_config.hpp"
#include "src/host/rails/rail_link.hpp"

namespace cxxrun::host {

/// Fills the connections of `links` (one per node, names already there). Throws Failure (timeout: who is missing and
/// why; usage: a peer of another version) and PeerFailure; `links` then holds what was connected.
void connect_rails(RailConfig const& config, os::UniqueFd listener, Mates& mates, Patience const& patience,
                   Links& links);

}  // namespace cxxrun::host
