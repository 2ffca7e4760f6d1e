#include "rendezvous/history/fitness.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "rendezvous/history/ledger.hpp"
#include "rendezvous/history/retrying.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kMostFaults = 1000;  // a job of a month has few

std::string what_of(WorkerExit const& exit) {
  return "rank " + std::to_string(exit.rank) + (exit.hung.empty() ? ": " + exit.status.describe() : " " + exit.hung);
}

bool is_of(NodeFault const& fault, std::string const& key, std::string const& host) {
  return fault.key.empty() ? fault.host == host : fault.key == key;
}

/// Acquits whoever this failure does not spare.
void acquit(Fitness& fitness, FirstFailure const& first, std::uint64_t look, Blame& result) {
  for (auto it = fitness.suspects.begin(); it != fitness.suspects.end();) {
    auto const& [key, suspect] = *it;
    bool const rank = suspect.group_rank == first.group_rank;
    if (!rank && suspect.look != look) {
      ++it;
      continue;
    }
    (rank ? result.ranks : result.looks).push_back(key);
    if (rank) {
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
    if (!fault.key.empty() && fault.key == decree_text(fault.key)) {  // a key that is cut would be another node's
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

Blame blame(Fitness& fitness, FirstFailure const& first) {
  if (first.exit.of_job) {  // no node's fault, and no failure in the row of one
    fitness.culprit.clear();
    return {};
  }
  std::uint64_t const look = look_of(first.exit);
  if (std::exchange(fitness.culprit, first.key) != first.key) {
    fitness.in_a_row = 0;
    fitness.doubtful.clear();
  }
  ++fitness.in_a_row;
  Blame result;
  acquit(fitness, first, look, result);
  bool const elsewhere = std::any_of(fitness.faults.begin(), fitness.faults.end(), [&](NodeFault const& fault) {
    return fault.look == look && !is_of(fault, first.key, first.host);
  });
  if (elsewhere || !result.looks.empty()) {
    fitness.common.insert(look);
    std::erase_if(fitness.faults, [look](NodeFault const& fault) { return fault.look == look; });
  }
  if (fitness.failing.contains(first.group_rank) || fitness.common.contains(look)) {
    return result;
  }
  bool const killed =
      (!first.exit.hung.empty() && !first.exit.status.ok()) || first.exit.status.kind == ExitStatus::Kind::signalled;
  NodeFault fault{first.host, what_of(first.exit), look, first.key};
  if (!killed) {
    fitness.doubtful.push_back(std::move(fault));
  } else {
    note_fault(fitness, std::move(fault));
  }
  result.running = fitness.in_a_row >= 2;
  result.again = result.running || faults_of(fitness, first.key, first.host).size() >= kFaultsEnough;
  return result;
}

void suspect(Fitness& fitness, FirstFailure const& first) {
  fitness.suspects[first.key] = {first.host, first.group_rank, look_of(first.exit)};
  for (auto& fault : std::exchange(fitness.doubtful, {})) {  // somebody else is tried in its place
    note_fault(fitness, std::move(fault));
  }
}

}  // namespace cxxrun::rendezvous
