// ProgressWatch: which of this node's workers stand still in their collectives, and when the coordinator is to hear it.
// Pure.
//
// The shell (hang_guard.hpp) looks at the workers' pages every `sample()` while they run, and tells what comes back.
// A worker that waits for others and one that computes look alike here: the coordinator knows the others
// (rendezvous/hangs/hanging.hpp). Rules: docs/use/hangs.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "rendezvous/values/standstill.hpp"
#include "rendezvous/values/steps.hpp"
#include "src/base/core/time.hpp"
#include "src/base/worker/page_view.hpp"

namespace cxxrun::launcher {

struct WatchPolicy {
  Millis period{15'000};  ///< still for so long: told, and every such period again

  /// How often to look.
  [[nodiscard]] Millis sample() const;
  /// A look that comes so late after the one before proves nothing: this node, or the job, was suspended.
  [[nodiscard]] Millis gap() const;
};
/// `hang_timeout`: --hang-timeout, 0 = none. A quarter of it, or of the 60 s after which a line is due anyway.
[[nodiscard]] WatchPolicy watch_policy(Millis hang_timeout);

/// One worker that has a page, and a Communicator of this generation.
struct Look {
  std::uint32_t rank = 0;
  worker::Figures figures;
  bool halted = false;  ///< its process is stopped
};

/// What a worker's page says of its steps in this generation; nothing where it is of another one. It is not believed
/// beyond the time in which the workers ran.
[[nodiscard]] rendezvous::StepTimes steps_in(worker::ControlPage const& page, std::uint64_t generation, TimePoint began,
                                             TimePoint now);

struct WatchState {
  struct Watched {
    rendezvous::Standstill last;  ///< `still` counts for nothing
    TimePoint since;              ///< it has not moved since
    std::optional<TimePoint> told;
  };
  std::map<std::uint32_t, Watched> workers;  ///< by rank
  std::optional<TimePoint> looked;
};

struct WatchStep {
  WatchState next;
  std::vector<rendezvous::Standstill> tell;  ///< empty: nothing to say
};

[[nodiscard]] WatchStep look(WatchState state, std::vector<Look> const& seen, TimePoint now, WatchPolicy const& policy);

}  // namespace cxxrun::launcher
