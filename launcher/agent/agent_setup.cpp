#include "launcher/agent/agent_setup.hpp"

#include <fstream>
#include <utility>

#include "launcher/logs/log_pump.hpp"
#include "launcher/logs/report.hpp"
#include "src/os/log.hpp"

namespace cxxrun::launcher {

void make_directories(NodeFacts const& facts, rendezvous::Generation const& generation) {
  if (facts.log_root.empty()) {
    return;
  }
  auto const made = make_worker_dirs(facts.log_root, generation.number, generation.local_size);
  if (!made) {
    log(Level::error, made.error().message());
  }
}

std::vector<CpuSet> choose_cpus(CpuFinder& finder, bool asked) {
  auto plan = finder.take();
  if (!plan.note.empty()) {
    log(asked ? Level::warn : Level::debug, plan.note);
  }
  return std::move(plan.sets);
}

void tell_verdict(rendezvous::Verdict const& verdict, std::string const& program, bool colour, LogRoot const& logs,
                  LogPump& pump) {
  if (auto report = format_report(verdict, program, colour); !report.empty()) {
    report.pop_back();  // say() adds the newline
    pump.say(std::move(report));
  }
  if (!logs.path.empty() && !logs.temporary) {
    std::ofstream(logs.path + "/verdict.json") << verdict_json(verdict);
  }
}

}  // namespace cxxrun::launcher
