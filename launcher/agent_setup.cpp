#include "launcher/agent_setup.hpp"

#include <utility>

#include "launcher/log_dir.hpp"
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

void choose_cpus(CpuFinder& finder, bool asked, NodeFacts& facts) {
  auto plan = finder.take();
  if (!plan.note.empty()) {
    log(asked ? Level::warn : Level::debug, plan.note);
  }
  facts.cpu_sets = std::move(plan.sets);
}

}  // namespace cxxrun::launcher
