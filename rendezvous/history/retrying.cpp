#include "rendezvous/history/retrying.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "src/base/core/hash.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

// src/runtime/python/cxxrun/_errors.py
constexpr std::string_view kRefused = "cxxrun.RefusedError: ";
constexpr std::string_view kMissing = "cxxrun.MissingError: ";

constexpr std::array kDelays{Millis{0}, Millis{1000}, Millis{5000}, Millis{30'000}};

/// The line that tells best how a program ended: the one that says why, else the last one.
std::string last_word(WorkerExit const& exit) {
  if (!exit.told.empty()) {
    return printable_lines(exit.told);
  }
  auto const lines = split(printable_lines(exit.stderr_tail), '\n');
  auto const said = std::find_if(lines.rbegin(), lines.rend(), [](auto const& line) { return !trim(line).empty(); });
  return said == lines.rend() ? std::string() : *said;
}

/// Whether a program that ends with that code and this line lacks something.
bool is_lack(std::string_view line, int code) {
  struct Sign {
    int code;
    std::string_view begins;
    std::string_view has;
  };
  static constexpr std::array kSigns{
      Sign{1, "ModuleNotFoundError: ", ""},
      Sign{1, "ImportError: ", ""},
      Sign{1, kMissing, ""},
      Sign{1, "", ": No module named "},                          // python3 -m
      Sign{2, "", ": can't open file '"},                         // python3 FILE
      Sign{127, "", ": error while loading shared libraries: "},  // the dynamic linker
      Sign{127, "", ": symbol lookup error: "},                   // the same, of a library of another version
  };
  return std::any_of(kSigns.begin(), kSigns.end(), [&](Sign const& sign) {
    return code == sign.code && line.starts_with(sign.begins) && line.find(sign.has) != line.npos;
  });
}

}  // namespace

std::string lacking(WorkerExit const& exit) {
  if (exit.status.kind == ExitStatus::Kind::not_started) {
    return exit.status.describe();
  }
  std::string const line = last_word(exit);
  bool const lacks = exit.status.kind == ExitStatus::Kind::exited && is_lack(line, exit.status.value);
  return lacks ? std::string(trim(line)) : std::string();
}

bool is_unanswered(std::string_view line) {
  return line == "bdb.BdbQuit" || line == kDebuggerQuits || line == "EOFError: EOF when reading a line";
}

bool is_refused(std::string_view line) {
  // A refusal in the callback of a future comes back from PyTorch inside an error of its own.
  bool const by_torch = line.starts_with("RuntimeError: ") && line.find(": RefusedError: ") != line.npos;
  return line.starts_with(kRefused) || by_torch;
}

bool is_repeated(std::string_view line) {
  return is_unanswered(line) || is_refused(line) || is_lack(line, 1);
}

std::string incurable(WorkerExit const& exit) {
  std::string const said = last_word(exit);
  auto const line = trim(said);
  bool const is = exit.status == ExitStatus::exited(1) && (is_unanswered(line) || is_refused(line));
  return is ? std::string(line) : std::string();
}

bool is_missed_by_package(std::string_view lacks) {
  return lacks.starts_with(kMissing);
}

std::uint64_t look_of(WorkerExit const& exit) {
  std::string const how = exit.hung.empty() ? exit.status.describe() : "hung";
  return fnv1a_without_numbers(last_word(exit), fnv1a(how + "\n"));
}

Streak after_end(Streak streak, bool lived) {
  return lived ? Streak{} : streak;
}

Streak after_failure(Streak streak, bool lived, WorkerExit const& exit) {
  streak = after_end(streak, lived);
  std::uint64_t const look = look_of(exit);
  bool const same = streak.alike > 0 && look == streak.look;
  ++streak.failures;
  streak.alike = lived ? 0 : same ? streak.alike + 1 : 1;
  streak.look = look;
  return streak;
}

Millis delay_after(Streak const& streak, Policy const& policy) {
  if (streak.failures == 0) {
    return Millis{0};
  }
  auto const place = std::min<std::size_t>(streak.failures, kDelays.size()) - 1;
  return std::min(kDelays.at(place), policy.restart_delay);
}

}  // namespace cxxrun::rendezvous
