// The starts of warm workers, as a state machine: which workers wait for the import, which for their fork, and when
// workers are executed instead. Pure. launcher/warm/zygote.cpp performs the actions; docs/use/warm.md explains it.
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
  given_up,  ///< for the rest of the job: workers are executed
};

struct State {
  Life life = Life::importing;
  std::set<std::uint32_t> waiting;  ///< local ranks that wait for the import
  std::set<std::uint32_t> asked;    ///< local ranks whose fork was requested and that have not said hello
  bool frozen = false;              ///< the node is frozen, so no deadline runs
  std::optional<TimePoint> deadline;
  bool operator==(State const&) const = default;
};

struct Policy {
  std::string modules;           ///< for the log
  Millis import_limit{120'000};  ///< counts from the first worker that waits
  Millis fork_limit{10'000};     ///< counts from the last fork request
};

// Events.
/// A worker is to be started.
struct Wanted {
  std::uint32_t local_rank = 0;
};
/// The zygote's report of its import: "ready" and milliseconds; or the problem, its module and details.
struct Reported {
  std::vector<std::string> words;
};
/// The zygote has forked a process for this worker, and it is a child of ours.
struct Hello {
  std::uint32_t local_rank = 0;
  int pid = 0;
};
/// The fork for this worker has failed.
struct Lost {
  std::uint32_t local_rank = 0;
};
/// The worker's streams could not be opened. The caller has reported that.
struct Unopened {
  std::uint32_t local_rank = 0;
};
/// The zygote has ended.
struct Ended {
  ExitStatus status;
};
struct Cancelled {};  ///< no worker that has not begun is to be started
struct Frozen {
  bool frozen = false;
};
struct Tick {};
using Event = std::variant<Wanted, Reported, Hello, Lost, Unopened, Ended, Cancelled, Frozen, Tick>;

// Actions.
/// Request a fork from the zygote.
struct Fork {
  std::uint32_t local_rank = 0;
  bool operator==(Fork const&) const = default;
};
/// The forked process is the worker: let it go on.
struct Admit {
  std::uint32_t local_rank = 0;
  int pid = 0;
  bool operator==(Admit const&) const = default;
};
/// Execute the worker instead. A process that is forked for it later ends without an order.
struct Execute {
  std::uint32_t local_rank = 0;
  bool operator==(Execute const&) const = default;
};
/// Start nothing. A process that is forked for the worker later ends without an order.
struct Drop {
  std::uint32_t local_rank = 0;
  bool operator==(Drop const&) const = default;
};
/// Send SIGKILL to the zygote.
struct Kill {
  bool operator==(Kill const&) const = default;
};
/// Send Tick at that time; without a time, disarm the timer.
struct Arm {
  std::optional<TimePoint> at;
  bool operator==(Arm const&) const = default;
};
using Action = std::variant<Fork, Admit, Execute, Drop, Kill, Arm>;

using Step = BasicStep<State, Action>;

[[nodiscard]] Step step(State state, Event const& event, TimePoint now, Policy const& policy);

}  // namespace cxxrun::launcher::warm
