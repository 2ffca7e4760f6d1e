// What an agent prepares before workers start: directories for their output, and where they are bound. And what it
// leaves at the end of a job that it has coordinated.
#pragma once

#include <string>
#include <vector>

#include "launcher/logs/log_dir.hpp"
#include "launcher/place/machine.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::launcher {

class LogPump;

/// For the output of this node's workers of `generation`. A directory that cannot be made is said in the log.
void make_directories(NodeFacts const& facts, rendezvous::Generation const& generation);
/// Why there are none is said in the log, louder when the user `asked` for them.
[[nodiscard]] std::vector<CpuSet> choose_cpus(CpuFinder& finder, bool asked);
/// The report to the console, and verdict.json where logs are kept.
void tell_verdict(rendezvous::Verdict const& verdict, std::string const& program, bool colour, LogRoot const& logs,
                  LogPump& pump);

}  // namespace cxxrun::launcher
