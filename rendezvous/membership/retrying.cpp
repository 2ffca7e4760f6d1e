#include "rendezvous/membership/retrying.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "src/core/hash.hpp"
#include "src/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

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

}  // namespace

std::string lacking(WorkerExit const& exit) {
  if (exit.status.kind == ExitStatus::Kind::not_started) {
    return exit.status.describe();
  }
  struct Sign {
    int code;
    std::string_view begins;
    std::string_view has;
  };
  static constexpr std::array kSigns{
      Sign{1, "ModuleNotFoundError: ", ""},
      Sign{1, "ImportError: ", ""},
      Sign{1, "", ": No module named "},                          // python3 -m
      Sign{2, "", ": can't open file '"},                         // python3 FILE
      Sign{127, "", ": error while loading shared libraries: "},  // the dynamic linker
      Sign{127, "", ": symbol lookup error: "},                   // the same, of a library of another version
  };
  std::string const line = last_word(exit);
  bool const signs =
      exit.status.kind == ExitStatus::Kind::exited && std::any_of(kSigns.begin(), kSigns.end(), [&](Sign const& sign) {
        return exit.status.value == sign.code && line.starts_with(sign.begins) &&
               line.find(sign.has) != std::string::npos;
      });
  return signs ? std::string(trim(line)) : std::string();
}

bool is_unanswered(std::string_view line) {
  return line == "bdb.BdbQuit" || line == "EOFError: EOF when reading a line";
}

std::string unanswered(WorkerExit const& exit) {
  std::string const said = last_word(exit);
  auto const line = trim(said);
  return exit.status == ExitStatus::exited(1) && is_unanswered(line) ? std::string(line) : std::string();
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
