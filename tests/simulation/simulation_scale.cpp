// simulation_scale [NODES]: one job without trouble, then without one node, then without its coordinator: how many
// messages and bytes, and how long of virtual time.
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/simulation/job.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::simulation;  // NOLINT(google-build-using-namespace)

namespace {

struct Counted {
  std::uint64_t messages;
  std::uint64_t bytes;
  Micros at;
};

Counted count(Job const& job) {
  return {job.network.messages, job.network.bytes, job.world.now()};
}

/// Until workers of a generation after `number` run on all of `nodes` of them. The generation.
std::uint64_t run_until_all_run(Job& job, std::uint64_t number, std::size_t nodes) {
  std::map<std::uint64_t, std::size_t> running;
  while (!job.world.broken && job.world.step()) {
    if (job.judge.last_started.first > number && job.judge.last_started.second == nodes) {
      return job.judge.last_started.first;
    }
  }
  std::cout << "broken: " << job.world.broken.value_or("nothing happens any more") << "\n";
  std::exit(1);
}

void tell(char const* what, Counted const& from, Counted const& to, std::size_t nodes) {
  auto const messages = to.messages - from.messages;
  auto const bytes = to.bytes - from.bytes;
  std::cout << what << ": " << messages << " messages, " << bytes << " bytes (" << bytes / nodes << " an agent), "
            << static_cast<double>(to.at - from.at) / 1000.0 << " ms of virtual time\n";
}

}  // namespace

int main(int argc, char** argv) {
  auto const nodes = static_cast<std::uint32_t>(argc > 1 ? std::stoul(argv[1]) : 10'000);
  Schedule schedule;
  schedule.seed = 1;
  schedule.nodes = nodes;
  schedule.policy.min_nodes = nodes / 2;
  schedule.policy.max_nodes = nodes;
  schedule.policy.expected_nodes = nodes;
  schedule.policy.rejoin_window = Millis{0};
  schedule.agent = agent_policy(schedule);
  schedule.most_delay = 500;
  schedule.trouble_ends = 1'000'000'000'000;
  schedule.bound = 1'000'000'000'000;
  Job job(std::move(schedule));
  job.network.counts_bytes = true;

  auto const begin = count(job);
  auto const first = run_until_all_run(job, 0, nodes);
  auto const formed = count(job);
  tell("to form", begin, formed, nodes);

  job.kill_host(nodes / 2, false);
  auto const second = run_until_all_run(job, first, nodes - 1);
  auto const lost_one = count(job);
  tell("to lose one", formed, lost_one, nodes);

  job.kill_host(0, false);
  run_until_all_run(job, second, nodes - 2);
  tell("to lose the coordinator", lost_one, count(job), nodes);
  return 0;
}
