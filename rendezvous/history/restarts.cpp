#include "rendezvous/history/restarts.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "src/base/core/hash.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

// How exceptions of src/runtime/python/cxxrun/_errors.py are printed.
constexpr std::string_view kRefused = "cxxrun.RefusedError: ";
constexpr std::string_view kMissing = "cxxrun.MissingError: ";

constexpr std::array kDelays{Millis{0}, Millis{1000}, Millis{5000}, Millis{30'000}};

/// The line that best tells how a program ended: the one that says why, else the last one.
std::string last_words(WorkerExit const& exit) {
  if (!exit.told.empty()) {
    return printable_lines(exit.told);
  }
  auto const lines = split(printable_lines(exit.stderr_tail), '\n');
  auto const said = std::find_if(lines.rbegin(), lines.rend(), [](auto const& line) { return !trim(line).empty(); });
  return said == lines.rend() ? std::string() : *said;
}

/// Whether a program that ends with this code and this line lacks something.
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
      Sign{127, "", ": symbol lookup error: "},                   // the same, with a library of another version
  };
  return std::any_of(kSigns.begin(), kSigns.end(), [&](Sign const& sign) {
    return code == sign.code && line.starts_with(sign.begins) && line.find(sign.has) != line.npos;
  });
}

/// Keeps only the newest that can matter: as many as may be consumed.
void remember(Restarts& restarts, std::uint32_t times, TimePoint now, Policy const& policy) {
  auto& newest = restarts.newest;
  newest.insert(newest.end(), std::min(times, policy.max_restarts), now);
  if (newest.size() > policy.max_restarts) {
    newest.erase(newest.begin(), newest.end() - static_cast<std::ptrdiff_t>(policy.max_restarts));
  }
}

}  // namespace

std::uint32_t restarts_counted(Restarts const& restarts, TimePoint now, Policy const& policy) {
  if (policy.restart_window == Millis{0}) {
    return restarts.consumed;
  }
  return static_cast<std::uint32_t>(std::count_if(restarts.newest.begin(), restarts.newest.end(),
                                                  [&](TimePoint at) { return now - at < policy.restart_window; }));
}

void consume_restart(Restarts& restarts, TimePoint now, Policy const& policy) {
  ++restarts.consumed;
  remember(restarts, 1, now, policy);
}

void inherit_restarts(Restarts& restarts, std::uint32_t consumed, TimePoint now, Policy const& policy) {
  if (consumed > restarts.consumed) {
    remember(restarts, consumed - restarts.consumed, now, policy);
    restarts.consumed = consumed;
  }
}

void inherit_decree(Restarts& restarts, Decree const& decided, TimePoint now, Policy const& policy) {
  inherit_restarts(restarts, decided.restarts, now, policy);
  restarts.streak = decided.streak;
  restarts.executed = restarts.begun = true;
}

std::string restart_text(Restarts const& restarts, TimePoint now, Policy const& policy) {
  std::string const most = " of " + std::to_string(policy.max_restarts);
  std::string const text = "restart " + std::to_string(restarts.consumed);
  return policy.restart_window == Millis{0} ? text + most
                                            : text + " (" + std::to_string(restarts_counted(restarts, now, policy)) +
                                                  most + " within " + seconds_text(policy.restart_window) + ")";
}

std::string missing_dependency(WorkerExit const& exit) {
  if (exit.status.kind == ExitStatus::Kind::not_started) {
    return exit.status.describe();
  }
  std::string const line = last_words(exit);
  bool const lacks = exit.status.kind == ExitStatus::Kind::exited && is_lack(line, exit.status.value);
  return lacks ? std::string(trim(line)) : std::string();
}

bool is_unanswered(std::string_view line) {
  return line == "bdb.BdbQuit" || line == kDebuggerQuits || line == "EOFError: EOF when reading a line";
}

bool is_refused(std::string_view line) {
  // PyTorch wraps a refusal in the callback of a future in an error of its own.
  bool const by_torch = line.starts_with("RuntimeError: ") && line.find(": RefusedError: ") != line.npos;
  return line.starts_with(kRefused) || by_torch;
}

bool is_repeated(std::string_view line) {
  return is_unanswered(line) || is_refused(line) || is_lack(line, 1);
}

std::string permanent_failure(WorkerExit const& exit) {
  std::string const said = last_words(exit);
  auto const line = trim(said);
  bool const is = exit.status == ExitStatus::exited(1) && (is_unanswered(line) || is_refused(line));
  return is ? std::string(line) : std::string();
}

bool is_missed_by_package(std::string_view lacks) {
  return lacks.starts_with(kMissing);
}

std::uint64_t look_of(WorkerExit const& exit) {
  std::string const how = exit.hung.empty() ? exit.status.describe() : "hung";
  return fnv1a_without_numbers(last_words(exit), fnv1a(how + "\n"));
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
