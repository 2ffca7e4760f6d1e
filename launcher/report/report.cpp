#include "launcher/report/report.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "src/base/core/hash.hpp"
#include "src/base/core/hostlist.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using rendezvous::End;
using rendezvous::Failure;
using rendezvous::History;
using rendezvous::PastGeneration;
using rendezvous::Role;
using rendezvous::Spent;
using rendezvous::Verdict;
using rendezvous::WorkerExit;

constexpr std::size_t kScreen = 40;    // rows that the report fills at most, except for long causes
constexpr std::size_t kLeastTail = 8;  // rows that the last lines of stderr get at least
constexpr std::size_t kLineRows = 3;   // rows of one of these lines
constexpr std::size_t kWhyRows = 4;    // rows of the line that says why
constexpr std::size_t kShownNodes = 8;
constexpr char const* kNoLog = "not kept; --log-dir DIR --tee 3 keeps it";

// ---- failures in one line each -------------------------------------------------------------------------------------

constexpr std::size_t kLabel = 17;

/// Failures that are shown in one line.
struct Alike {
  Failure const* first = nullptr;
  std::vector<std::uint32_t> ranks;
  std::set<std::string> hosts;
};

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U;
}

std::size_t columns(std::string_view line) {
  return static_cast<std::size_t>(std::ranges::count_if(line, begins_character));
}

std::string role_text(Role role) {
  switch (role) {
    case Role::culprit: return "";
    case Role::waited: return ", waiting for another rank";
    case Role::lost_peer: return ", after losing a peer";
    case Role::told_to_end: return ", told to end";
  }
  return "";
}

std::string ended(WorkerExit const& exit) {
  return exit.hung.empty() ? (exit.ours ? "was failing when it was stopped, " : "") + exit.status.describe()
                           : (exit.status.ok() ? "exit code 0, and it " : "killed because it ") + exit.hung;
}

/// How a worker ended, in a few words. If cxxrun killed it, the reason instead of the signal.
std::string how(WorkerExit const& exit) {
  return ended(exit) + (exit.cause.empty() || !exit.hung.empty() ? "" : ": " + exit.cause);
}

/// Failures with the same key are alike.
auto key_of(WorkerExit const& exit) {
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

std::string group_line(Alike const& alike, WorkerExit const& cause) {
  auto const& exit = alike.first->exit;
  auto const said = exit.told.empty() ? "" : ": " + exit.told;
  auto const end = key_of(exit) == key_of(cause) ? "the same" : how(exit) + role_text(exit.role) + said;
  return labelled(alike.ranks.size(), where(alike) + ": " + end);
}

/// The workers that were killed because they had not ended within the time of the stop. One line of at most four rows
/// for all with the same reason, at most kKilledShown lines and one about the rest.
std::vector<std::string> killed_lines(rendezvous::Verdict const& verdict) {
  constexpr std::size_t kRows = 4;
  constexpr std::size_t kKilledShown = 3;
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

std::vector<std::string> other_lines(rendezvous::Verdict const& verdict) {
  std::vector<std::pair<std::size_t, std::string>> found;
  if (!verdict.failures.empty()) {
    std::map<decltype(key_of(WorkerExit{})), Alike> groups;
    for (auto it = verdict.failures.begin() + 1; it != verdict.failures.end(); ++it) {
      add(groups[key_of(it->exit)], *it);
    }
    for (auto const& [key, group] : groups) {
      found.emplace_back(group.ranks.size(), group_line(group, verdict.failures.front().exit));
    }
    for (auto const& [end, count] : verdict.stopped) {
      found.emplace_back(count, labelled(count, end));
    }
  }
  std::ranges::stable_sort(found, [](auto const& a, auto const& b) { return a.first > b.first; });
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

// ---- the account ---------------------------------------------------------------------------------------------------

namespace {

constexpr Millis kLong{10'000};  // a job without a failure has an account from this length on
constexpr Millis kShort{1'000};  // the same for one that survived a failure
constexpr std::size_t kCostliestShown = 3;

struct AccountRow {
  Spent spent;
  char const* title;
};
constexpr std::array kAccountRows{AccountRow{Spent::training, "training"},
                                  AccountRow{Spent::checkpoint, "checkpoint"},
                                  AccountRow{Spent::lost, "lost"},
                                  AccountRow{Spent::startup, "start-up"},
                                  AccountRow{Spent::waiting, "waiting for nodes"},
                                  AccountRow{Spent::stopping, "stopping"}};

std::string percent(Millis part, Millis all) {
  std::int64_t const tenths = all > Millis{0} ? (part.count() * 1000 + all.count() / 2) / all.count() : 0;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

/// Training in percent of the whole time: "91.3 %".
std::string goodput_text(History const& history) {
  return percent(history.account[Spent::training], history.account.total());
}

std::string padded(std::string const& text, std::size_t width, bool right = false) {
  std::string const blanks(width - std::min(width, text.size()), ' ');
  return right ? blanks + text : text + blanks;
}

std::vector<PastGeneration> costliest(History const& history) {
  std::vector<PastGeneration> failed;
  std::ranges::copy_if(history.past, std::back_inserter(failed), [](auto const& each) { return each.failed; });
  std::ranges::stable_sort(failed, [](auto const& a, auto const& b) { return a.lost > b.lost; });
  return failed;
}

std::string losses(History const& history) {
  auto const failed = costliest(history);
  std::string text;
  for (std::size_t i = 0; i < std::min(failed.size(), kCostliestShown); ++i) {
    text += "      " + elapsed_text(failed[i].lost) + " to the end of generation " + std::to_string(failed[i].number) +
            ": " + printable(failed[i].why) + "\n";
  }
  auto const more = failed.size() - std::min(failed.size(), kCostliestShown);
  return more == 0 ? text : text + "      and to " + std::to_string(more) + " more\n";
}

}  // namespace

bool worth_telling(History const& history) {
  bool const failed = std::ranges::any_of(history.past, [](auto const& each) { return each.failed; });
  bool const survived = history.left_out > 0 || (failed && history.past.size() > 1);
  return history.account.total() >= (survived ? kShort : kLong);
}

std::string account_lines(History const& history) {
  auto const all = history.account.total();
  if (all == Millis{0}) {
    return "";
  }
  std::string text = "  elapsed:       " + elapsed_text(all);
  if (!worth_telling(history)) {
    return text + "\n";
  }
  text += ", goodput " + goodput_text(history) + (history.steps ? "" : " at most: the program reports no steps") + "\n";
  for (auto const& [spent, title] : kAccountRows) {
    if (auto const part = history.account[spent]; part > Millis{0}) {
      text += "    " + padded(title, 18) + padded(elapsed_text(part), 10, true) + padded(percent(part, all), 9, true) +
              "\n" + (spent == Spent::lost ? losses(history) : "");
    }
  }
  return text;
}

// ---- the report ----------------------------------------------------------------------------------------------------

namespace {

std::string clock_time(std::int64_t wall_ms) {
  std::time_t const seconds = static_cast<std::time_t>(wall_ms / 1000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  std::size_t const length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  std::string const millis = std::to_string(1000 + wall_ms % 1000);
  return std::string(text, length) + "." + millis.substr(1);
}

/// The exception, and the line of stderr, that say why.
void write_why(std::string& out, rendezvous::WorkerExit const& exit) {
  auto const line = [&out](char const* label, std::string const& text) {
    out += cut_to_rows(label + text, kWhyRows) + "\n";
  };
  if (!exit.error_file.empty()) {
    line("  exception:     ", exit.error_file);
  }
  if (exit.status.kind == ExitStatus::Kind::not_started) {
    line("  why:           ", exit.stderr_tail);
  } else if (!exit.told.empty() && exit.error_file.find(exit.told) == std::string::npos) {
    line("  why:           ", exit.told);
  }
}

void write_cause(std::string& out, Failure const& failure) {
  auto const& exit = failure.exit;
  out += "  first failure: " + rank_name(exit.rank, failure.host) + " (node " + std::to_string(failure.group_rank) +
         ", local rank " + std::to_string(exit.local_rank);
  out += exit.pid > 0 ? ", pid " + std::to_string(exit.pid) + ")\n" : ")\n";
  out += "  how:           " + how(exit) + "\n";
  write_why(out, exit);
  if (!exit.advice.empty()) {
    out += "  advice:        " + exit.advice + "\n";
  }
  if (exit.wall_ms > 0) {
    out += "  when:          " + clock_time(exit.wall_ms) + "\n";
  }
  if (exit.status.kind != ExitStatus::Kind::not_started) {
    out += "  log:           " + (exit.log.empty() ? kNoLog : failure.host + ":" + exit.log) + "\n";
  }
}

/// Ranks that had ended with 0 before others failed: "rank 0 on node1 at 2026-11-28 10:15:00.123".
void write_left_before(std::string& out, std::vector<rendezvous::Leaver> const& left) {
  constexpr std::size_t kShown = 3;
  auto ends = list_of(left, [](rendezvous::Leaver const& each) {
    return rank_name(each.rank, each.host) + (each.wall_ms > 0 ? " at " + clock_time(each.wall_ms) : "");
  });
  if (!left.empty()) {
    out += cut_to_rows("  left before:   with exit code 0: " + join_first(kShown, std::move(ends)), kWhyRows) + "\n";
  }
}

/// The last lines of stderr, as many as fit on a screen with the rest of the report, but at least kLeastTail rows.
void write_tail(std::string& out, std::string const& tail, std::size_t other_rows) {
  if (tail.empty()) {
    out += "  stderr:        (nothing)\n";
    return;
  }
  auto const lines = split(tail.ends_with('\n') ? tail.substr(0, tail.size() - 1) : tail, '\n');
  std::size_t room = std::max(kLeastTail, kScreen - std::min(kScreen, other_rows));
  std::string text;
  for (auto line = lines.rbegin(); line != lines.rend() && room > 0; ++line) {
    auto const shown = cut_to_rows("    | " + *line, std::min(room, kLineRows));
    assert(rows_of(shown) <= room);
    room -= rows_of(shown);
    text.insert(0, shown + "\n");
  }
  out += "  last lines of its stderr:\n" + text;
}

std::string restarts_text(Verdict const& verdict) {
  std::string const used = std::to_string(verdict.restarts);
  std::string const most = std::to_string(verdict.max_restarts);
  return verdict.restart_window == Millis{0}
             ? used + " of " + most
             : used + ", at most " + most + " within " + seconds_text(verdict.restart_window);
}

void write_nodes(std::string& out, Verdict const& verdict) {
  if (!verdict.lost_nodes.empty()) {
    out += "  lost nodes:    " + join_first(kShownNodes, verdict.lost_nodes) + "\n";
  }
  for (auto const& line : verdict.followed) {
    out += "  " + line + "\n";
  }
  for (auto const& node : verdict.excluded) {
    out += "  excluded:      " + node + "\n";
  }
  if (verdict.generation > 0) {
    out +=
        "  restarts used: " + restarts_text(verdict) + ", last generation " + std::to_string(verdict.generation) + "\n";
  }
}

std::size_t total_rows(std::string const& text) {
  std::size_t sum = 0;
  for (auto const& line : split(text, '\n')) {
    sum += rows_of(line);
  }
  return sum - 1;  // split() gives an empty line after the last newline
}

/// Makes text from other nodes safe for a terminal: no line breaks, no control characters.
Verdict cleaned(Verdict verdict) {
  constexpr std::size_t kLongest = 2048;
  auto const clean = [](std::string& text) { text = printable(text, kLongest); };
  clean(verdict.summary);
  for (auto* const list : {&verdict.lost_nodes, &verdict.excluded, &verdict.followed}) {
    std::ranges::for_each(*list, clean);
  }
  for (auto& each : verdict.left) {
    clean(each.host);
  }
  for (auto& each : verdict.killed) {
    clean(each.host);
    clean(each.exit.cause);
  }
  for (auto& failure : verdict.failures) {
    clean(failure.host);
    clean(failure.exit.hung);
    clean(failure.exit.cause);
    clean(failure.exit.advice);
    clean(failure.exit.told);
    clean(failure.exit.log);
    clean(failure.exit.error_file);
    failure.exit.stderr_tail = printable_lines(failure.exit.stderr_tail);
  }
  return verdict;
}

}  // namespace

std::string format_report(Verdict const& told, std::string const& program, bool colour) {
  Verdict const verdict = cleaned(told);
  if (verdict.end == End::success) {
    return {};
  }
  if (verdict.end == End::system_failure && verdict.failures.empty()) {
    return "cxxrun: " + verdict.summary + "\n";
  }
  std::string const bold = colour ? "\033[1;31m" : "";
  std::string const plain = colour ? "\033[0m" : "";
  std::string const rule(72, '=');
  std::string head = rule + "\n" + bold + "cxxrun: " + program + ": " + name_of(verdict.end) + plain + "\n";
  head += cut_to_rows("  " + verdict.summary, kWhyRows) + "\n";
  std::string rest;
  if (!verdict.failures.empty()) {
    write_cause(head, verdict.failures.front());
    write_left_before(head, verdict.left);
    for (auto const& line : other_lines(verdict)) {
      rest += line + "\n";
    }
  }
  for (auto const& line : killed_lines(verdict)) {
    rest += line + "\n";
  }
  write_nodes(rest, verdict);
  rest += "  exit code:     " + std::to_string(verdict.exit_code) + "\n" + account_lines(verdict.history) + rule + "\n";
  if (!verdict.failures.empty() && verdict.failures.front().exit.status.kind != ExitStatus::Kind::not_started) {
    write_tail(head, verdict.failures.front().exit.stderr_tail, total_rows(head) + total_rows(rest) + 1);
  }
  return head + rest;
}

}  // namespace cxxrun::launcher
