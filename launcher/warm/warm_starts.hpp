// The starts of warm workers, as a pure state machine: who waits for the import, who for the fork, and when workers are
// executed instead. launcher/warm/zygote.cpp performs it; docs/use/warm.md has it in words.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "src/base/core/exit_status.hpp"
#include "src/base/core/time.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::launcher::warm {

enum class Life {
  importing,
  ready,
  given_up,  ///< for good: workers are executed
};

struct State {
  Life life = Life::importing;
  std::set<std::uint32_t> waiting;  ///< local ranks that wait for the import
  std::set<std::uint32_t> asked;    ///< their fork was asked for, and they have not said hello
  bool frozen = false;              ///< with all of the node: nothing is late
  std::optional<TimePoint> deadline;
  bool operator==(State const&) const = default;
};

struct Policy {
  std::string modules;           ///< for the log
  Millis import_limit{120'000};  ///< from the first worker that waits
  Millis fork_limit{10'000};     ///< from the last fork that was asked for
};

// Events.
struct Wanted {
  std::uint32_t local_rank = 0;
};
/// What the zygote says of its import: "ready" and milliseconds, or what was wrong, with which module, and details.
struct Reported {
  std::vector<std::string> words;
};
/// A child of ours that the zygote has forked for it.
struct Hello {
  std::uint32_t local_rank = 0;
  int pid = 0;
};
/// Its fork has come to nothing.
struct Lost {
  std::uint32_t local_rank = 0;
};
/// It could not be prepared, and that is reported.
struct Unopened {
  std::uint32_t local_rank = 0;
};
/// The zygote.
struct Ended {
  ExitStatus status;
};
struct Cancelled {};  ///< of all that have not begun
struct Frozen {
  bool frozen = false;
};
struct Tick {};
using Event = std::variant<Wanted, Reported, Hello, Lost, Unopened, Ended, Cancelled, Frozen, Tick>;

// Actions.
struct Fork {
  std::uint32_t local_rank = 0;
  bool operator==(Fork const&) const = default;
};
struct Admit {
  std::uint32_t local_rank = 0;
  int pid = 0;
  bool operator==(Admit const&) const = default;
};
/// No order comes for whoever is forked for it.
struct Execute {
  std::uint32_t local_rank = 0;
  bool operator==(Execute const&) const = default;
};
/// The same, and nothing is started.
struct Drop {
  std::uint32_t local_rank = 0;
  bool operator==(Drop const&) const = default;
};
/// SIGKILL to the zygote.
struct Kill {
  bool operator==(Kill const&) const = default;
};
/// Nothing: no Tick is to come.
struct Arm {
  std::optional<TimePoint> at;
  bool operator==(Arm const&) const = default;
};
using Action = std::variant<Fork, Admit, Execute, Drop, Kill, Arm>;

using Step = BasicStep<State, Action>;

[[nodiscard]] Step step(State state, Event const& event, TimePoint now, Policy const& policy);

}  // namespace cxxrun::launcher::warm
