// ProgressWatch: which of this node's workers stand still, when to report that, and what becomes of one that other
// ranks name. Pure. Rules: docs/use/hangs.md.
//
// watch_step() is about workers with a Communicator. Their pages show their collectives, and the coordinator is told
// who has not moved. A worker that waits for others and one that computes look alike here; the coordinator tells them
// apart (rendezvous/hangs). unseen_step() is about workers without one. For these --hang-timeout sees nothing, and only
// /proc shows whether they are stopped or wait in the kernel.
//
// The shell is hang_guard.hpp. It samples the workers every `WatchPolicy::sample()` while they run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/failure.hpp"
#include "rendezvous/values/progress.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/time.hpp"
#include "src/base/worker/page_view.hpp"

namespace cxxrun::launcher {

struct WatchPolicy {
  Millis period{15'000};  ///< a worker is reported once it has stood still for this long, and again every period

  /// The interval between two samples.
  [[nodiscard]] Millis sample() const;
  /// After a longer interval the standstill proves nothing: this node, or the job, was suspended.
  [[nodiscard]] Millis gap() const;
};
/// `hang_timeout`: --hang-timeout, 0 = none. The period is a quarter of it, or of the 60 s after which a line is due
/// anyway.
[[nodiscard]] WatchPolicy watch_policy(Millis hang_timeout);

/// A sample of a worker that has a page, and a Communicator of this generation.
struct WorkerSample {
  std::uint32_t rank = 0;
  worker::Figures figures;
  bool halted = false;  ///< its process is stopped
};

/// The steps in this generation according to a worker's page; nothing if the page is of another generation. Times are
/// clamped to the time in which the workers ran.
[[nodiscard]] rendezvous::StepTimes steps_in(worker::ControlPage const& page, std::uint64_t generation, TimePoint began,
                                             TimePoint now);

struct WatchState {
  struct Watched {
    rendezvous::Standstill last;    ///< the last sample; `still` is not used
    TimePoint since;                ///< it has not moved since
    std::optional<TimePoint> told;  ///< last report of its standstill
  };
  std::map<std::uint32_t, Watched> workers;  ///< by rank
  std::optional<TimePoint> looked;           ///< last sample
};

struct WatchStep {
  WatchState next;
  std::vector<rendezvous::Standstill> tell;  ///< reports to the coordinator
};

[[nodiscard]] WatchStep watch_step(WatchState state, std::vector<WorkerSample> const& samples, TimePoint now,
                                   WatchPolicy const& policy);

// ---- workers that show no collectives ---------------------------------------------------------------------------

/// A sample of a running worker.
struct UnseenSample {
  std::uint32_t rank = 0;
  int pid = 0;
  char state = '?';    ///< in /proc/PID/stat
  bool shows = false;  ///< it has a page of this generation
};

struct UnseenPolicy {
  Millis limit{60'000};    ///< --hang-timeout, or the 60 s after which a line is due anyway
  bool asked = false;      ///< --hang-timeout is given
  bool watch = true;       ///< --watch
  bool bootstrap = false;  ///< the Python package is available to the workers
};

struct UnseenState {
  struct Stuck {
    char state = '?';
    TimePoint since;
    bool named = false;
  };
  std::optional<TimePoint> began;        ///< first sample
  bool said = false;                     ///< blind_line() was logged: once in an agent's life
  std::map<std::uint32_t, Stuck> stuck;  ///< by rank
};

struct UnseenStep {
  UnseenState next;
  std::vector<std::uint32_t> stuck;  ///< ranks to name now: stopped, or in uninterruptible sleep, for the limit
  bool blind = false;                ///< no worker has shown its collectives for the limit
};
[[nodiscard]] UnseenStep unseen_step(UnseenState state, std::vector<UnseenSample> const& samples, TimePoint now,
                                     UnseenPolicy const& policy);

/// Says that --hang-timeout sees nothing, and what to do. `armed`: one of the workers has run the package's bootstrap.
[[nodiscard]] std::string blind_line(std::string const& host, UnseenPolicy const& policy, bool armed);
/// Names a stuck worker. `told`: os::describe_stuck() of it.
[[nodiscard]] std::string stuck_line(std::string const& name, UnseenSample const& worker, std::string const& told,
                                     Millis limit);

// ---- workers that other ranks have named, because they gave them up -----------------------------------------------
//
// Such a worker may itself be waiting for the culprit. So it is asked to give up its wait (ControlPage::asked); it
// answers, or it is asleep. docs/design/survival.md has the reasons and a table; a test plays each row of it.

/// Time to end or park by itself.
inline constexpr Millis kNamedPatience{2000};
/// The same for a worker that has answered: with NCCL it asks its peers first.
inline constexpr Millis kAnsweredPatience{6000};
/// Time to answer once a thread of the worker has seen the request. Waits poll every 1 ms, and that thread has just had
/// a CPU, so this only covers scheduling delay.
inline constexpr Millis kAnswer{150};
/// Interval at which a named worker is examined.
inline constexpr Millis kNamedLook{10};

struct NamedWorker {
  std::optional<ExitStatus> end = {};  ///< how it ended, if it has
  bool runs = false;                   ///< it has neither ended nor parked
  bool waits = false;                  ///< it waits in a collective
  bool halted = false;                 ///< its process is stopped
  std::optional<Millis> since = {};    ///< time since it was asked, or first given patience
  std::optional<Millis> heard = {};    ///< time since a thread of it was first seen to have heard
  bool answered = false;               ///< it gives up its wait
  bool moved = false;                  ///< it has begun or ended a call since it was asked
};

enum class NamedFate : std::uint8_t {
  nothing,   ///< the coordinator knows its failure already, or the worker can survive
  failed,    ///< its end is a failure although its code is 0
  killed,    ///< kill it now
  asked,     ///< ask it to give up its wait
  patience,  ///< look again later: it may be unwinding, or may not know yet that the generation cannot succeed
};

[[nodiscard]] inline NamedFate fate_of(PeerFailure::Why named, NamedWorker const& worker) {
  if (worker.end) {
    return worker.end->ok() ? NamedFate::failed : NamedFate::nothing;
  }
  if (!worker.runs) {
    return NamedFate::nothing;
  }
  bool const late = named == PeerFailure::Why::timeout;
  if (late && (worker.halted || (!worker.waits && !worker.since))) {
    return NamedFate::killed;
  }
  if (late && !worker.since) {
    return NamedFate::asked;
  }
  bool const sleeps = !worker.answered && !worker.moved && worker.heard && *worker.heard >= kAnswer;
  bool const over = worker.since && *worker.since >= (worker.answered ? kAnsweredPatience : kNamedPatience);
  return sleeps || over ? NamedFate::killed : NamedFate::patience;
}

}  // namespace cxxrun::launcher
