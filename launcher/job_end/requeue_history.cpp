#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "launcher/job_end/requeue.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::requeue {
namespace {

using rendezvous::NodeFault;

constexpr std::size_t kLongestWhat = 200;

std::optional<Run> parse_run(std::string_view line) {
  auto const words = split(line, ' ');
  if (words.size() != 4 || words[0] != "run" || words[2].empty() || (words[3] != "progress" && words[3] != "none")) {
    return std::nullopt;
  }
  auto const restarts = parse_unsigned(words[1], 0, UINT32_MAX);
  if (!restarts) {
    return std::nullopt;
  }
  return Run{static_cast<std::uint32_t>(*restarts), words[2], words[3] == "progress"};
}

std::optional<NodeFault> parse_fault(std::string_view line) {
  auto const words = split(line, ' ');
  if (words.size() < 4 || words[0] != "node" || words[1].empty()) {
    return std::nullopt;
  }
  auto const look = parse_unsigned(words[2], 0, UINT64_MAX);
  if (!look) {
    return std::nullopt;
  }
  auto const before = words[0].size() + words[1].size() + words[2].size() + 3;
  return NodeFault{words[1], printable(line.substr(before), kLongestWhat), *look};
}

/// As Slurm has them. An agent may call itself anything, and the advice is to be typed.
bool is_node_name(std::string const& host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
  });
}

template <class Entry>
void keep_newest(std::vector<Entry>& entries) {
  if (entries.size() > kMostRuns) {
    entries.erase(entries.begin(), entries.end() - kMostRuns);
  }
}

}  // namespace

History parse_history(std::string_view text) {
  History history;
  for (auto const& line : split(text, '\n')) {
    if (trim(line).empty()) {
      continue;
    }
    if (auto run = parse_run(line); run) {
      history.runs.push_back(*std::move(run));
    } else if (auto fault = parse_fault(line); fault) {
      history.faults.push_back(*std::move(fault));
    } else {
      history.garbage = true;
    }
  }
  keep_newest(history.runs);
  keep_newest(history.faults);
  return history;
}

std::string format_history(History history) {
  keep_newest(history.runs);
  keep_newest(history.faults);
  std::string text;
  for (auto const& run : history.runs) {
    text += "run " + std::to_string(run.restarts) + " " + run.how + (run.progress ? " progress\n" : " none\n");
  }
  for (auto const& fault : history.faults) {
    if (!is_node_name(fault.host)) {
      continue;
    }
    text += "node " + fault.host + " " + std::to_string(fault.look) + " " + printable(fault.what, kLongestWhat) + "\n";
  }
  return text;
}

std::string exclusion_advice(std::vector<NodeFault> const& faults, std::string const& job, JobState const* again) {
  std::map<std::string, std::vector<NodeFault>> by_host;
  for (auto const& fault : faults) {
    by_host[fault.host].push_back(fault);
  }
  std::string causes;
  std::string hosts;
  for (auto const& [host, its] : by_host) {
    if (its.size() < rendezvous::kFaultsEnough || !is_node_name(host)) {
      continue;
    }
    causes += (causes.empty() ? "" : ", ") + host + " was the cause of " + std::to_string(its.size()) +
              " failures (the last one " + printable(its.back().what, kLongestWhat) + ")";
    hosts += (hosts.empty() ? "" : ",") + host;
  }
  if (hosts.empty()) {
    return "";
  }
  std::string const kept_from = again != nullptr && !again->kept_from.empty() ? again->kept_from + "," : "";
  return causes + "; " +
         (again != nullptr ? "until the next run starts: scontrol update JobId=" + job + " ExcNodeList=" + kept_from
                           : "the next time: sbatch --exclude=") +
         hosts;
}

}  // namespace cxxrun::launcher::requeue
