#include "launcher/report/report_lines.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "src/base/core/hash.hpp"
#include "src/base/core/hostlist.hpp"
#include "src/base/core/rank_name.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using rendezvous::Failure;
using rendezvous::Role;
using rendezvous::WorkerExit;

constexpr std::size_t kLabel = 17;

/// Failures that look alike.
struct Alike {
  Failure const* first = nullptr;
  std::vector<std::uint32_t> ranks;
  std::set<std::string> hosts;
};

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U;
}

std::size_t columns(std::string_view line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), begins_character));
}

std::string of_another(Role role) {
  switch (role) {
    case Role::culprit: return "";
    case Role::waited: return ", waiting for another one";
    case Role::lost_peer: return ", having lost another one";
    case Role::told_to_end: return ", told to end";
  }
  return "";
}

std::string ended(WorkerExit const& exit) {
  return exit.hung.empty() ? (exit.ours ? "was failing when it was stopped, " : "") + exit.status.describe()
                           : (exit.status.ok() ? "exit code 0, and it " : "killed, for it ") + exit.hung;
}

auto look(WorkerExit const& exit) {
  return std::make_tuple(ended(exit), exit.role, fnv1a_without_numbers(exit.cause), fnv1a_without_numbers(exit.told));
}

std::string labelled(std::size_t count, std::string const& text) {
  std::string label = "  " + std::to_string(count) + (count == 1 ? " other:" : " others:");
  label.resize(std::max(kLabel, label.size() + 1), ' ');
  return cut_to_rows(label + text, 1);
}

void add(Alike& group, Failure const& failure) {
  group.first = group.first == nullptr ? &failure : group.first;
  group.ranks.push_back(failure.exit.rank);
  group.hosts.insert(failure.host);
}

/// "rank 3 on node1", "ranks 0-3, 7 on node[1-2]"
std::string where(Alike const& alike) {
  if (alike.ranks.size() == 1) {
    return rank_name(alike.first->exit.rank, alike.first->host);
  }
  auto const all =
      "ranks " + number_list(alike.ranks, ", ") + " on " + compress_hostlist({alike.hosts.begin(), alike.hosts.end()});
  return cut_to_rows(all, 1).substr(0, kColumns / 2);
}

std::string line_of(Alike const& alike, WorkerExit const& cause) {
  auto const& exit = alike.first->exit;
  auto const said = exit.told.empty() ? "" : ": " + exit.told;
  auto const end = look(exit) == look(cause) ? "the same" : how(exit) + of_another(exit.role) + said;
  return labelled(alike.ranks.size(), where(alike) + ": " + end);
}

}  // namespace

std::size_t rows_of(std::string_view line) {
  return std::max<std::size_t>(1, (columns(line) + kColumns - 1) / kColumns);
}

std::string cut_to_rows(std::string line, std::size_t rows) {
  if (rows_of(line) <= rows) {
    return line;
  }
  std::size_t at = 0;
  for (std::size_t shown = 0; at < line.size(); ++at) {
    if (begins_character(line[at]) && ++shown == rows * kColumns) {
      break;
    }
  }
  return line.substr(0, at) + "…";
}

std::string how(WorkerExit const& exit) {
  return ended(exit) + (exit.cause.empty() || !exit.hung.empty() ? "" : ": " + exit.cause);
}

std::vector<std::string> other_lines(rendezvous::Verdict const& verdict) {
  std::vector<std::pair<std::size_t, std::string>> found;
  if (!verdict.failures.empty()) {
    std::map<decltype(look(WorkerExit{})), Alike> groups;
    for (auto it = verdict.failures.begin() + 1; it != verdict.failures.end(); ++it) {
      add(groups[look(it->exit)], *it);
    }
    for (auto const& [key, group] : groups) {
      found.emplace_back(group.ranks.size(), line_of(group, verdict.failures.front().exit));
    }
    for (auto const& [end, count] : verdict.stopped) {
      found.emplace_back(count, labelled(count, end));
    }
  }
  std::stable_sort(found.begin(), found.end(), [](auto const& a, auto const& b) { return a.first > b.first; });
  std::vector<std::string> lines;
  std::size_t rest = 0;
  for (auto& [count, line] : found) {
    if (lines.size() + 1 < kOthersShown || found.size() <= kOthersShown) {
      lines.push_back(std::move(line));
    } else {
      rest += count;
    }
  }
  if (rest > 0) {
    lines.push_back(labelled(rest, "in " + std::to_string(found.size() - lines.size()) + " other ways"));
  }
  return lines;
}

std::vector<std::string> killed_lines(rendezvous::Verdict const& verdict) {
  constexpr std::size_t kRows = 4;
  std::map<std::string, Alike> groups;
  for (auto const& each : verdict.killed) {
    add(groups[each.exit.cause], each);
  }
  std::vector<std::string> lines;
  std::size_t shown = 0;
  for (auto const& [cause, group] : groups) {
    if (lines.size() == kKilledShown) {
      lines.push_back("  killed:        " + std::to_string(verdict.killed.size() - shown) +
                      " more; verdict.json names them");
      break;
    }
    lines.push_back(cut_to_rows("  killed:        " + where(group) + ": " + cause, kRows));
    shown += group.ranks.size();
  }
  return lines;
}

}  // namespace cxxrun::launcher
