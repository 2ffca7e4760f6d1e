// What an agent prepares before workers start: directories for their output, and where they are bound.
#pragma once

#include "launcher/machine.hpp"
#include "launcher/worker_plan.hpp"
#include "rendezvous/messages.hpp"

namespace cxxrun::launcher {

/// For the output of this node's workers of `generation`. A directory that cannot be made is said in the log.
void make_directories(NodeFacts const& facts, rendezvous::Generation const& generation);
/// The CPU sets into `facts`; why there are none is said in the log, louder when the user `asked` for them.
void choose_cpus(CpuFinder& finder, bool asked, NodeFacts& facts);

}  // namespace cxxrun::launcher
