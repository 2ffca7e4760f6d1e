#include "launcher/logs/report.hpp"

#include <algorithm>
#include <ctime>
#include <sstream>

#include <nlohmann/json.hpp>

#include "src/core/rank_name.hpp"
#include "src/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using rendezvous::End;
using rendezvous::Failure;
using rendezvous::Verdict;
using Json = nlohmann::json;

constexpr std::size_t kFoldedShown = 8;
constexpr std::size_t kLongestMessage = 16384;  // a Python exception may say much

std::string clock_time(std::int64_t wall_ms) {
  std::time_t const seconds = static_cast<std::time_t>(wall_ms / 1000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[32];
  std::size_t const length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  std::string const millis = std::to_string(1000 + wall_ms % 1000);
  return std::string(text, length) + "." + millis.substr(1);
}

std::string indented(std::string const& text, std::string const& indent) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    result += indent + line + "\n";
  }
  return result;
}

/// Of one that cxxrun killed, the reason says more than the signal.
std::string how(rendezvous::WorkerExit const& exit) {
  std::string const why = exit.cause.empty() ? "" : ": " + exit.cause;
  return exit.hung.empty() ? exit.status.describe() + why : "killed, for it " + exit.hung;
}

void write_cause(std::string& out, Failure const& failure) {
  auto const& exit = failure.exit;
  out += "  first failure: " + rank_name(exit.rank, failure.host) + " (node " + std::to_string(failure.group_rank) +
         ", local rank " + std::to_string(exit.local_rank);
  out += exit.pid > 0 ? ", pid " + std::to_string(exit.pid) + ")\n" : ")\n";
  out += "  how:           " + how(exit) + "\n";
  if (!exit.advice.empty()) {
    out += "  advice:        " + exit.advice + "\n";
  }
  if (exit.wall_ms > 0) {
    out += "  when:          " + clock_time(exit.wall_ms) + "\n";
  }
  if (auto const message = error_file_message(exit.error_file); !message.empty()) {
    out += "  error file:    " + message + "\n";
  }
  if (exit.stderr_tail.empty()) {
    out += "  stderr:        (nothing)\n";
  } else {
    out += "  last lines of its stderr:\n" + indented(exit.stderr_tail, "    | ");
  }
}

void write_others(std::string& out, std::vector<Failure> const& failures) {
  if (failures.size() < 2) {
    return;
  }
  out += "  " + std::to_string(failures.size() - 1) + " more failed after it:\n";
  std::size_t shown = 0;
  for (auto it = failures.begin() + 1; it != failures.end() && shown < kFoldedShown; ++it, ++shown) {
    out += "    " + rank_name(it->exit.rank, it->host) + ": " + how(it->exit) + "\n";
  }
  if (shown < failures.size() - 1) {
    out += "    … and " + std::to_string(failures.size() - 1 - shown) + " more\n";
  }
}

/// At most eight of them.
std::string listed(std::vector<std::string> const& nodes) {
  constexpr std::size_t kMost = 8;
  auto const shown = static_cast<std::ptrdiff_t>(std::min(nodes.size(), kMost));
  std::string const text = join({nodes.begin(), nodes.begin() + shown}, ", ");
  return nodes.size() <= kMost ? text : text + " and " + std::to_string(nodes.size() - kMost) + " more";
}

std::string restarts_text(Verdict const& verdict) {
  std::string const used = std::to_string(verdict.restarts);
  std::string const most = std::to_string(verdict.max_restarts);
  return verdict.restart_window == Millis{0}
             ? used + " of " + most
             : used + ", at most " + most + " within " + seconds_text(verdict.restart_window);
}

Json to_json(Failure const& failure) {
  return Json{{"host", failure.host},
              {"group_rank", failure.group_rank},
              {"rank", failure.exit.rank},
              {"local_rank", failure.exit.local_rank},
              {"pid", failure.exit.pid},
              {"how", failure.exit.status.describe()},
              {"hung", failure.exit.hung},
              {"cause", failure.exit.cause},
              {"advice", failure.exit.advice},
              {"exit_code", failure.exit.status.shell_code()},
              {"time_ms", failure.exit.wall_ms},
              {"stderr", failure.exit.stderr_tail}};
}

/// What other nodes have said is shown on a terminal: nothing in it begins a line of its own or does more than show.
Verdict cleaned(Verdict verdict) {
  constexpr std::size_t kLongest = 2048;
  auto const clean = [](std::string& text) { text = printable(text, kLongest); };
  clean(verdict.summary);
  for (auto* const list : {&verdict.lost_nodes, &verdict.excluded, &verdict.followed}) {
    std::for_each(list->begin(), list->end(), clean);
  }
  for (auto& failure : verdict.failures) {
    clean(failure.host);
    clean(failure.exit.hung);
    clean(failure.exit.cause);
    clean(failure.exit.advice);
    failure.exit.stderr_tail = printable_lines(failure.exit.stderr_tail);
  }
  return verdict;
}

}  // namespace

std::string error_file_message(std::string const& text) {
  Json const json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("message")) {
    return {};
  }
  Json const* message = &json.at("message");
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
  std::string out = rule + "\n" + bold + "cxxrun: " + program + ": " + name_of(verdict.end) + plain + "\n";
  out += "  " + verdict.summary + "\n";
  if (!verdict.failures.empty()) {
    write_cause(out, verdict.failures.front());
    write_others(out, verdict.failures);
  }
  if (!verdict.lost_nodes.empty()) {
    out += "  lost nodes:    " + listed(verdict.lost_nodes) + "\n";
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
  out += "  exit code:     " + std::to_string(verdict.exit_code) + "\n" + rule + "\n";
  return out;
}

std::string verdict_json(Verdict const& verdict) {
  Json json{{"verdict", name_of(verdict.end)},  {"exit_code", verdict.exit_code},
            {"summary", verdict.summary},       {"generation", verdict.generation},
            {"restarts", verdict.restarts},     {"max_restarts", verdict.max_restarts},
            {"lost_nodes", verdict.lost_nodes}, {"failures", Json::array()},
            {"excluded", verdict.excluded},     {"followed", verdict.followed}};
  for (auto const& failure : verdict.failures) {
    json["failures"].push_back(to_json(failure));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cxxrun::launcher
