#include "rendezvous/history/fitness.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <utility>

#include "rendezvous/history/ledger.hpp"
#include "rendezvous/history/restarts.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kMostFaults = 1000;  // far more than a job of a month has

std::string what_of(WorkerExit const& exit) {
  return "rank " + std::to_string(exit.rank) + (exit.hung.empty() ? ": " + exit.status.describe() : " " + exit.hung);
}

bool is_of(NodeFault const& fault, std::string const& key, std::string const& host) {
  return fault.key.empty() ? fault.host == host : fault.key == key;
}

/// Clears suspects that have the rank of this failure, or the same look.
void clear_suspects(Fitness& fitness, FirstFailure const& first, std::uint64_t look, Attribution& result) {
  for (auto it = fitness.suspects.begin(); it != fitness.suspects.end();) {
    auto const& [key, suspect] = *it;
    bool const same_rank = suspect.group_rank == first.group_rank;
    if (!same_rank && suspect.look != look) {
      ++it;
      continue;
    }
    (same_rank ? result.by_rank : result.by_look).push_back(key);
    if (same_rank) {
      fitness.failing.insert(first.group_rank);
      std::erase_if(fitness.faults, [&](auto const& fault) { return is_of(fault, it->first, it->second.host); });
    }
    it = fitness.suspects.erase(it);
  }
}

}  // namespace

std::vector<NodeFault> faults_of(Fitness const& fitness, std::string const& key, std::string const& host) {
  std::vector<NodeFault> faults;
  std::copy_if(fitness.faults.begin(), fitness.faults.end(), std::back_inserter(faults),
               [&](NodeFault const& fault) { return is_of(fault, key, host); });
  return faults;
}

std::string fault_text(std::vector<NodeFault> const& faults) {
  assert(!faults.empty());
  return "the cause of " + std::to_string(faults.size()) + " failures, the last one " + faults.back().what;
}

void note_fault(Fitness& fitness, NodeFault fault) {
  fitness.faults.push_back(std::move(fault));
  if (fitness.faults.size() > kMostFaults) {
    fitness.faults.erase(fitness.faults.begin());
  }
}

std::vector<NodeFault> faults_in_short(Fitness const& fitness) {
  std::vector<NodeFault> brief;
  for (auto fault : fitness.faults) {
    fault.host = decree_text(fault.host);
    fault.what = decree_text(fault.what);
    if (!fault.key.empty() && fault.key == decree_text(fault.key)) {  // a key cut short would be that of another node
      brief.push_back(std::move(fault));
    }
  }
  auto const surplus = std::max(brief.size(), kFaultsOfDecree) - kFaultsOfDecree;
  brief.erase(brief.begin(), brief.begin() + static_cast<std::ptrdiff_t>(surplus));
  return brief;
}

void inherit_faults(Fitness& fitness, std::vector<NodeFault> const& decided) {
  std::erase_if(fitness.faults, [](NodeFault const& fault) { return !fault.key.empty(); });
  fitness.faults.insert(fitness.faults.end(), decided.begin(), decided.end());
}

Attribution attribute_failure(Fitness& fitness, FirstFailure const& first) {
  if (first.exit.of_job) {  // no node's fault, and it ends the row of the last node
    fitness.last_node.clear();
    return {};
  }
  std::uint64_t const look = look_of(first.exit);
  if (std::exchange(fitness.last_node, first.key) != first.key) {
    fitness.in_a_row = 0;
    fitness.doubtful.clear();
  }
  ++fitness.in_a_row;
  Attribution result;
  clear_suspects(fitness, first, look, result);
  bool const elsewhere = std::any_of(fitness.faults.begin(), fitness.faults.end(), [&](NodeFault const& fault) {
    return fault.look == look && !is_of(fault, first.key, first.host);
  });
  if (elsewhere || !result.by_look.empty()) {
    fitness.common.insert(look);
    std::erase_if(fitness.faults, [look](NodeFault const& fault) { return fault.look == look; });
  }
  if (fitness.failing.contains(first.group_rank) || fitness.common.contains(look)) {
    return result;
  }
  // A worker that was killed shows a fault of its node. An exit with a code may be the program's own doing: it counts
  // only once the node is excluded for it.
  bool const killed =
      (!first.exit.hung.empty() && !first.exit.status.ok()) || first.exit.status.kind == ExitStatus::Kind::signalled;
  NodeFault fault{first.host, what_of(first.exit), look, first.key};
  if (!killed) {
    fitness.doubtful.push_back(std::move(fault));
  } else {
    note_fault(fitness, std::move(fault));
  }
  result.in_a_row = fitness.in_a_row >= 2;
  result.repeated = result.in_a_row || faults_of(fitness, first.key, first.host).size() >= kFaultsEnough;
  return result;
}

void add_suspect(Fitness& fitness, FirstFailure const& first) {
  fitness.suspects[first.key] = {first.host, first.group_rank, look_of(first.exit)};
  for (auto& fault : std::exchange(fitness.doubtful, {})) {  // another node is tried in its place
    note_fault(fitness, std::move(fault));
  }
}

}  // namespace cxxrun::rendezvous
