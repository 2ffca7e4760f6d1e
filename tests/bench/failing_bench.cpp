// failing_bench: what it costs the coordinator of a large job to find out who failed: which ranks workers blame, and
// the verdict with its files. A release build, without arguments, by hand: exit code 1 when a figure is over its bar.
// With --smoke: a small round, and no bars.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/report/report.hpp"
#include "launcher/report/report_json.hpp"
#include "rendezvous/hangs/blame.hpp"
#include "rendezvous/membership/cause.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace): a program, not a header
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint32_t kWorkers = 8;  // of a node

bool over_a_bar = false;

/// Of this process's CPU time: others may run on the machine. `bar`: 0 = none.
void measure(std::string const& what, std::uint32_t nodes, double bar, std::function<void()> const& work) {
  auto const start = std::clock();
  work();
  double const seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%-52s %6u nodes of 8: %8.3f s", what.c_str(), nodes, seconds);
  std::printf(bar > 0 ? " (bar %.1f)\n" : "\n", bar);
  over_a_bar = over_a_bar || (bar > 0 && seconds > bar);
}

/// Whom each rank names. A message has the words of a node, and is judged.
void hear_all(std::uint32_t nodes, std::function<std::uint32_t(std::uint32_t)> const& names) {
  std::uint32_t const world = nodes * kWorkers;
  BlameState state;
  TimePoint now{};
  for (std::uint32_t node = 0; node < nodes; ++node) {
    for (std::uint32_t rank = node * kWorkers; rank < (node + 1) * kWorkers; ++rank) {
      if (names(rank) < world) {
        add_report(state, {rank, {names(rank), PeerFailure::Why::timeout}}, false, world, now);
      }
    }
    now += Millis{1};
    (void)judge_blame(state, world, now);
  }
}

void blame(std::uint32_t nodes, double bar) {
  std::uint32_t const world = nodes * kWorkers;
  measure("blame, all messages, all name the last one", nodes, bar,
          [&] { hear_all(nodes, [&](std::uint32_t rank) { return rank + 1 < world ? world - 1 : world; }); });
  measure("blame, all messages, a chain", nodes, bar,
          [&] { hear_all(nodes, [](std::uint32_t rank) { return rank + 1; }); });
  measure("blame, all messages, a chain backwards", nodes, bar,
          [&] { hear_all(nodes, [&](std::uint32_t rank) { return rank > 0 ? rank - 1 : world; }); });
  measure("blame, all messages, half name the other half", nodes, bar,
          [&] { hear_all(nodes, [&](std::uint32_t rank) { return rank < world / 2 ? rank + world / 2 : world; }); });
}

enum class Failed { none, first_of_node, all, all_are_victims };

State ended(std::uint32_t nodes, Failed failed) {
  State state;
  state.number = 1;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    Seat seat;
    seat.agent = node + 1;
    seat.node.host = "node" + std::to_string(node);
    seat.rank_base = node * kWorkers;
    seat.node.slots = kWorkers;
    seat.now = Seat::Now::stopped;
    for (std::uint32_t local = 0; local < kWorkers; ++local) {
      WorkerExit exit;
      exit.rank = seat.rank_base + local;
      exit.local_rank = local;
      exit.pid = 4711;
      exit.stderr_tail = "step 1200: loss 0.25\nValueError: no data\n";
      bool const fails = failed != Failed::none && (failed != Failed::first_of_node || local == 0);
      exit.ours = !fails;
      exit.status = fails ? ExitStatus::exited(1) : ExitStatus::signalled(SIGTERM);
      if (fails && failed == Failed::all_are_victims) {
        exit.role = Role::waited;
        exit.lost = worker::Loss{(exit.rank + 1) % (nodes * kWorkers), PeerFailure::Why::timeout};
      }
      if (fails) {
        exit.told = "ValueError: no data";
        state.group.reports.push_back({node, exit});
      }
      seat.exits.push_back(std::move(exit));
    }
    state.group.seat_of.emplace(seat.agent, node);
    state.group.seats.push_back(std::move(seat));
  }
  return state;
}

void verdicts(std::uint32_t nodes, double bar) {
  Policy policy;
  policy.max_restarts = 0;
  policy.max_restarts_given = true;
  for (auto const& [failed, name] :
       {std::pair(Failed::none, "none failed"), std::pair(Failed::first_of_node, "1 of 8 failed"),
        std::pair(Failed::all, "all failed"), std::pair(Failed::all_are_victims, "all name the next one")}) {
    State const state = ended(nodes, failed);
    Ruling ruling;
    Verdict verdict;
    measure(std::string("ruling, ") + name, nodes, 2 * bar, [&] { ruling = rule(state, policy, {}); });
    measure(std::string("verdict, ") + name, nodes, bar,
            [&] { verdict = make_verdict(state, policy, End::worker_failed, 1, ruling.line); });
    std::size_t bytes = 0;
    measure(std::string("report and verdict.json, ") + name, nodes, 0, [&] {
      bytes = launcher::format_report(verdict, "train.py", false).size() + launcher::verdict_json(verdict).size();
    });
    std::printf("%-52s %6u nodes of 8: %8zu kB\n", "", nodes, bytes / 1000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--smoke") {
    blame(4, 0);
    verdicts(4, 0);
    return 0;
  }
  blame(1000, 0.2);
  blame(16'384, 1);
  verdicts(16'384, 0.3);
  return over_a_bar ? 1 : 0;
}
