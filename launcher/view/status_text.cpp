#include "launcher/view/status_text.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "launcher/view/figures.hpp"
#include "launcher/view/node_rows.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {
namespace {

constexpr std::size_t kShownNodes = 11;
constexpr std::size_t kShownEvents = 4;
constexpr std::size_t kShownFrames = 6;
constexpr int kNotable = 20;  // one part in so many is a difference
constexpr Millis kLeastStill{10'000};
constexpr int kStillSteps = 10;  // no step for so many times the usual time of one: the job stands still

std::string name_of(Placed const& placed) {
  return "rank " + std::to_string(placed.worker->rank) + " on " + placed.node->host;
}
std::string names_of(std::vector<Placed> const& placed) {
  return join_first(3, list_of(placed, name_of));
}

/// The workers that have begun fewer collectives than the others, which wait for them. "": none, or more than half.
std::string who_is_behind(std::vector<Placed> const& workers) {
  auto const most = most_of(workers, &Worker::begun);
  std::uint64_t least = UINT64_MAX;
  for (auto const& each : workers) {
    least = std::min(least, each.worker->begun);
  }
  std::vector<Placed> behind;
  std::copy_if(workers.begin(), workers.end(), std::back_inserter(behind),
               [least](Placed const& each) { return each.worker->begun == least; });
  if (least == most || behind.size() * 2 > workers.size()) {
    return "";
  }
  return "; " + names_of(behind) + (behind.size() == 1 ? " has" : " have") + " begun " + std::to_string(least) +
         " collectives, others " + std::to_string(most);
}

/// "" where it is not known, or was much the same.
std::string hour_ago(Table const& table, Millis usual) {
  auto const before = table.hour_ago_per_step.value_or(usual);
  auto const differs = std::max(before, usual) - std::min(before, usual);
  return differs * kNotable > before ? " (" + seconds_text(before) + " an hour ago)" : "";
}

Judgement judge_running(Table const& table) {
  auto const workers = workers_now(table);
  std::vector<Placed> stopped;
  std::copy_if(workers.begin(), workers.end(), std::back_inserter(stopped),
               [](Placed const& each) { return each.worker->state == 'T'; });
  if (!stopped.empty()) {
    return {"STANDS STILL: " + names_of(stopped) + " " + (stopped.size() == 1 ? "is" : "are") + " stopped (SIGSTOP)",
            false};
  }
  auto const usual = usual_step(workers);
  auto const newest = newest_step(workers);
  if (usual && newest && *newest > std::max(*usual * kStillSteps, kLeastStill)) {
    return {"STANDS STILL: no step for " + elapsed_text(*newest) + ", " + seconds_text(*usual) + " is usual" +
                who_is_behind(workers),
            false};
  }
  for (auto const& node : table.members) {
    if (node.generation == table.generation && node.heard_ago > kSilent) {
      return {"is SILENT in part: no word from " + node.host + " for " + elapsed_text(node.heard_ago), false};
    }
  }
  if (!table.slow.empty()) {
    auto const more = table.slow.size() - 1;
    return {"is SLOW: " + table.slow.front().says + (more > 0 ? "; and " + std::to_string(more) + " more" : ""), true};
  }
  if (newest) {
    return {"trains: step " + std::to_string(most_of(workers, &Worker::step)) +
                (usual ? ", " + seconds_text(*usual) + " a step" + hour_ago(table, *usual) : ""),
            true};
  }
  auto const begun = most_of(workers, &Worker::begun);
  return {"runs for " + elapsed_text(table.phase_age) + ": its program has reported no training step yet" +
              (begun > 0 ? "; " + std::to_string(begun) + " collectives begun" : ""),
          true};
}

/// Beside whatever else is said: a worker may stand still because of it.
std::string silent_drivers(Table const& table) {
  std::vector<std::string> hosts;
  for (auto const& node : table.members) {
    if (node.generation == table.generation && node.gpus_silent) {
      hosts.push_back(node.host);
    }
  }
  return hosts.empty() ? "" : "; " + join_first(3, std::move(hosts)) + ": the GPU driver does not answer";
}

std::string because(Table const& table) {
  return table.why.empty() ? "" : ": " + table.why;
}

/// Wraps a text to at most `most` lines of kColumns. Lines after the first are indented.
std::string wrapped(std::string const& text, std::size_t most) {
  std::string lines;
  std::string line;
  for (auto const& word : split(text, ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      lines += line.substr(0, kColumns) + "\n";
      line = "     ";
      if (--most == 0) {
        return lines;
      }
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return lines + line.substr(0, kColumns) + "\n";
}

std::string head_of(Tail const& tail) {
  return "==> " + tail.host + ":" + tail.file + " <==\n";
}

/// `terminal`: control characters become '?'.
std::string shown_lines(std::string const& lines, bool terminal) {
  return (terminal ? printable_lines(lines) : lines) + (lines.empty() || lines.back() == '\n' ? "" : "\n");
}

}  // namespace

Judgement judge(Table const& table) {
  auto const ranks = counted(table.ranks, "rank") + " on " + counted(table.nodes, "node");
  if (table.phase == "running") {
    auto judgement = judge_running(table);
    judgement.sentence += silent_drivers(table);
    return judgement;
  }
  if (table.phase == "starting") {
    return {"starts " + ranks + " for " + elapsed_text(table.phase_age), true};
  }
  if (table.phase == "stopping") {
    return {"STOPS its workers for " + elapsed_text(table.phase_age) + because(table), false};
  }
  if (table.phase == "over") {
    return {"is OVER" + because(table), false};
  }
  return {"WAITS for nodes for " + elapsed_text(table.phase_age) + because(table), false};
}

std::string head_text(Table const& table) {
  std::string text = wrapped(table.run_id + " " + judge(table).sentence, 3);
  text += wrapped((table.program.empty() ? "" : table.program + ", ") + elapsed_text(table.job_age) +
                      (table.generation > 0 ? "; generation " + std::to_string(table.generation) : "") +
                      (table.generation_age ? " for " + elapsed_text(*table.generation_age) : "") +
                      (table.ranks > 0 ? "; " + counted(table.ranks, "rank") : "") +
                      (table.nodes > 0 ? " on " + counted(table.nodes, "node") : ""),
                  2);
  auto const trained = goodput(table);
  return plain(text + wrapped((trained ? "goodput " + percent_text(*trained) + "; " : "") + "restarts " +
                                  std::to_string(table.restarts) +
                                  (table.max_restarts ? " of " + std::to_string(*table.max_restarts) : "") +
                                  "; coordinated on " + table.coordinator,
                              1));
}

std::string account_text(Table const& table) {
  std::string text;
  auto const account = table.account.value_or(rendezvous::Account{});
  for (auto const spent : rendezvous::kAllSpent) {
    if (account[spent] > Millis{0}) {
      text += (text.empty() ? "spent: " : ", ") + std::string(name_of(spent)) + " " + elapsed_text(account[spent]);
    }
  }
  if (table.checkpoint_age) {
    text += (text.empty() ? "" : "; ") + last_checkpoint_text(*table.checkpoint_age);
  }
  return text;
}

std::string last_checkpoint_text(Millis age) {
  return "last checkpoint " + elapsed_text(age) + " ago";
}

std::string event_text(Table const& table, Table::Event const& event) {
  return plain(elapsed_text(std::max(table.job_age - event.at, Millis{0})) + " ago  " + event.text).substr(0, kColumns);
}

std::string status_text(Table const& table, bool all) {
  auto text = head_text(table);
  if (auto const account = account_text(table); all && !account.empty()) {
    text += wrapped(account, 3);
  }
  auto const shown = nodes_by(table, Column::ranks);
  auto const idle = table.members.size() - shown.size();
  text += shown.empty() ? "" : head_row(table) + "\n";
  for (std::size_t i = 0; i < shown.size() && (all || i < kShownNodes); ++i) {
    text += plain(node_row(table, *shown[i])) + "\n";
  }
  if (!all && shown.size() > kShownNodes) {
    text += "and " + counted(shown.size() - kShownNodes, "node") + " more (cxxrunctl status -v shows all)\n";
  }
  if (idle > 0) {
    text += counted(idle, "node") + " without workers now\n";
  }
  auto const skipped = all ? 0 : table.events.size() - std::min(table.events.size(), kShownEvents);
  for (auto i = skipped; i < table.events.size(); ++i) {
    text += event_text(table, table.events[i]) + "\n";
  }
  return text;
}

std::string stacks_text(std::vector<Stack> stacks, bool all) {
  std::map<std::pair<std::vector<std::string>, std::string>, std::vector<Stack const*>> equal;
  for (auto& stack : stacks) {
    stack.place = stack.frames.empty() && stack.place.empty() ? "no stack" : stack.place;
    // What the kernel says of a process begins with its pid, which does not count as a difference.
    auto const place = stack.place.find(')');
    equal[{stack.frames,
           stack.place.starts_with("pid ") && place != std::string::npos ? stack.place.substr(place) : stack.place}]
        .push_back(&stack);
  }
  std::vector<std::vector<Stack const*>> groups;
  groups.reserve(equal.size());
  for (auto& [key, group] : equal) {
    groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(), [](auto const& a, auto const& b) { return a.size() < b.size(); });
  std::string text;
  for (auto const& group : groups) {
    std::vector<std::uint32_t> ranks;
    ranks.reserve(group.size());
    for (auto const* const stack : group) {
      ranks.push_back(stack->rank);
    }
    auto const& first = *group.front();
    text += (group.size() == 1 ? "rank " + std::to_string(first.rank) + " on " + first.host
                               : "ranks " + number_list(std::move(ranks))) +
            (first.frames.empty() ? ": " + first.place : "") + "\n";
    auto const shown = all ? first.frames.size() : std::min(first.frames.size(), kShownFrames);
    for (std::size_t i = 0; i < shown; ++i) {
      text += "    " + first.frames[i] + "\n";
    }
    if (shown < first.frames.size()) {
      text += "    and " + counted(first.frames.size() - shown, "frame") + " more (-v shows all)\n";
    }
  }
  return text;
}

std::string last_lines(std::string const& text, std::size_t lines) {
  auto from = text.size();
  for (std::size_t count = 0; from > 0; --from) {
    if (text[from - 1] == '\n' && from != text.size() && ++count == lines) {
      break;
    }
  }
  return lines == 0 ? "" : text.substr(from);
}

std::string tails_text(std::vector<Tail> const& tails, std::size_t lines, bool terminal) {
  std::string text;
  for (auto const& tail : tails) {
    text += (tails.size() > 1 ? head_of(tail) : "") + shown_lines(last_lines(tail.text, lines), terminal);
  }
  return text;
}

std::string followed_text(std::vector<Tail> const& tails, std::string& shown, bool terminal) {
  std::string text;
  for (auto const& tail : tails) {
    if (tail.text.empty()) {
      continue;
    }
    auto const head = head_of(tail);
    bool const one = shown.empty() && tails.size() == 1;
    text += (head == shown || one ? "" : head) + shown_lines(tail.text, terminal);
    shown = head;
  }
  return text;
}

}  // namespace cxxrun::launcher::view
