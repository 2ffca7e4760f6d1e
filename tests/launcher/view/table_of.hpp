// A table of a healthy job, and one who is slow in it, for tests.
#pragma once

#include "launcher/view/table.hpp"

namespace cxxrun::launcher::view {

inline Table table_of(std::uint32_t nodes, std::uint32_t per_node) {
  Table table;
  table.run_id = "4711.0";
  table.coordinator = "node0";
  table.program = "train.py";
  table.phase = "running";
  table.phase_age = Millis{120'000};
  table.job_age = Millis{7'985'000};
  table.generation = 2;
  table.generation_age = Millis{2'470'500};
  table.nodes = nodes;
  table.ranks = std::uint64_t{nodes} * per_node;
  table.restarts = 1;
  table.max_restarts = 3;
  for (std::uint32_t n = 0; n < nodes; ++n) {
    Node node{"node" + std::to_string(n), 2, Millis{400}, {}};
    for (std::uint32_t i = 0; i < per_node; ++i) {
      node.workers.push_back({n * per_node + i, 12'480, Millis{300}, Millis{1910}, 49'920, true, 88'000, 970, 'R'});
    }
    table.members.push_back(std::move(node));
  }
  return table;
}

/// The same with an account: 90.1 % of its time was training.
inline Table accounted(Table table) {
  auto& account = table.account.emplace();
  account[rendezvous::Spent::training] = Millis{7'200'000};
  account[rendezvous::Spent::lost] = Millis{551'000};
  account[rendezvous::Spent::startup] = Millis{110'900};
  table.steps_known = true;
  table.checkpoint_age = Millis{724'000};
  table.nodes_lost = 1;
  return table;
}

inline Table::Slow slow_rank(std::uint32_t rank, std::uint32_t ranks = 1) {
  return {rank, ranks, "node1", Millis{310}, 16, "ddp", "input", "rank is late"};
}

}  // namespace cxxrun::launcher::view
