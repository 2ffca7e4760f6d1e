#include "launcher/report/report.hpp"

#include <algorithm>
#include <ctime>

#include <nlohmann/json.hpp>

#include "launcher/report/account_text.hpp"
#include "launcher/report/report_lines.hpp"
#include "launcher/report/story_json.hpp"
#include "src/base/core/rank_name.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using rendezvous::End;
using rendezvous::Failure;
using rendezvous::Verdict;
using PlainJson = nlohmann::json;

constexpr std::size_t kLongestMessage = 2000;
constexpr std::size_t kScreen = 40;    // rows that the report fills at most, as a rule
constexpr std::size_t kLeastTail = 8;  // of them for the last lines of stderr
constexpr std::size_t kLineRows = 3;   // for one of them
constexpr std::size_t kWhyRows = 4;    // for what says why
constexpr std::size_t kShownNodes = 8;
constexpr char const* kNoLog = "not kept; --log-dir DIR --tee 3 keeps it";

std::string clock_time(std::int64_t wall_ms) {
  std::time_t const seconds = static_cast<std::time_t>(wall_ms / 1000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  std::size_t const length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  std::string const millis = std::to_string(1000 + wall_ms % 1000);
  return std::string(text, length) + "." + millis.substr(1);
}

/// What the cause's own words say of it.
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

/// "rank 0 on node1 at 2026-11-28 10:15:00.123 with exit code 0"
void write_left(std::string& out, std::vector<rendezvous::Leaver> const& left) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> ends;
  ends.reserve(left.size());
  for (auto const& each : left) {
    ends.push_back(rank_name(each.rank, each.host) + (each.wall_ms > 0 ? " at " + clock_time(each.wall_ms) : ""));
  }
  if (!left.empty()) {
    out += cut_to_rows("  left before:   with exit code 0: " + join_first(kShown, std::move(ends)), kWhyRows) + "\n";
  }
}

/// As many of its last lines as fit on a screen beside the rest of the report, and never fewer than kLeastTail rows.
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

char const* role_name(rendezvous::Role role) {
  switch (role) {
    case rendezvous::Role::culprit: return "culprit";
    case rendezvous::Role::waited: return "waited";
    case rendezvous::Role::lost_peer: return "lost_peer";
    case rendezvous::Role::told_to_end: return "told_to_end";
  }
  return "culprit";
}

PlainJson to_json(Failure const& failure) {
  return PlainJson{{"host", failure.host},
                   {"group_rank", failure.group_rank},
                   {"rank", failure.exit.rank},
                   {"local_rank", failure.exit.local_rank},
                   {"pid", failure.exit.pid},
                   {"how", failure.exit.status.describe()},
                   {"hung", failure.exit.hung},
                   {"cause", failure.exit.cause},
                   {"advice", failure.exit.advice},
                   {"told", failure.exit.told},
                   {"role", role_name(failure.exit.role)},
                   {"exception", failure.exit.error_file},
                   {"log", failure.exit.log},
                   {"exit_code", failure.exit.status.shell_code()},
                   {"time_ms", failure.exit.wall_ms},
                   {"stderr", failure.exit.stderr_tail}};
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

std::size_t rows(std::string const& text) {
  std::size_t sum = 0;
  for (auto const& line : split(text, '\n')) {
    sum += rows_of(line);
  }
  return sum - 1;  // nothing follows the last newline
}

/// What other nodes have said is shown on a terminal: nothing in it begins a line of its own or does more than show.
Verdict cleaned(Verdict verdict) {
  constexpr std::size_t kLongest = 2048;
  auto const clean = [](std::string& text) { text = printable(text, kLongest); };
  clean(verdict.summary);
  for (auto* const list : {&verdict.lost_nodes, &verdict.excluded, &verdict.followed}) {
    std::for_each(list->begin(), list->end(), clean);
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

std::string error_file_message(std::string const& text) {
  PlainJson const json = PlainJson::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("message")) {
    return {};
  }
  PlainJson const* message = &json.at("message");
  if (message->is_object() && message->contains("message")) {
    message = &message->at("message");
  }
  if (!message->is_string()) {
    return {};
  }
  std::string line = message->get<std::string>();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return printable(line, kLongestMessage);
}

std::string error_file_for_caller(std::string const& text, ExitStatus const& status) {
  PlainJson json = PlainJson::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("message") || !json.at("message").is_object()) {
    return text;
  }
  json["message"]["errorCode"] = status.kind == ExitStatus::Kind::signalled ? -status.value : status.value;
  return json.dump(-1, ' ', false, PlainJson::error_handler_t::replace);
}

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
    write_left(head, verdict.left);
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
    write_tail(head, verdict.failures.front().exit.stderr_tail, rows(head) + rows(rest) + 1);
  }
  return head + rest;
}

std::string verdict_json(Verdict const& verdict) {
  PlainJson json = PlainJson::parse(history_json(verdict.history));
  json.update({{"version", kStoryVersion},
               {"verdict", name_of(verdict.end)},
               {"exit_code", verdict.exit_code},
               {"summary", verdict.summary},
               {"generation", verdict.generation},
               {"restarts", verdict.restarts},
               {"max_restarts", verdict.max_restarts},
               {"lost_nodes", verdict.lost_nodes},
               {"failures", PlainJson::array()},
               {"left_before", PlainJson::array()},
               {"excluded", verdict.excluded},
               {"followed", verdict.followed},
               {"stopped", verdict.stopped}});
  for (auto const& failure : verdict.failures) {
    json["failures"].push_back(to_json(failure));
  }
  for (auto const& each : verdict.left) {
    json["left_before"].push_back({{"host", each.host}, {"rank", each.rank}, {"time_ms", each.wall_ms}});
  }
  json["killed"] = PlainJson::array();
  for (auto const& each : verdict.killed) {
    json["killed"].push_back(
        {{"host", each.host}, {"rank", each.exit.rank}, {"pid", each.exit.pid}, {"cause", each.exit.cause}});
  }
  json["node_faults"] = PlainJson::array();
  for (auto const& fault : verdict.node_faults) {
    json["node_faults"].push_back({{"host", fault.host}, {"what", fault.what}});
  }
  return json.dump(2, ' ', false, PlainJson::error_handler_t::replace) + "\n";
}

}  // namespace cxxrun::launcher
