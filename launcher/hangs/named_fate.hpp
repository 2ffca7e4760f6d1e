// NamedFate: what an agent does with a worker that other ranks have named, because they gave it up. Pure.
//
// A named worker that waits may itself be waiting for the culprit. So it is asked to give up its wait
// (ControlPage::asked); it answers, or it is asleep. docs/design/survival.md has the reasons and a table; a test plays
// each row of it.
#pragma once

#include <cstdint>
#include <optional>

#include "cxxrun/failure.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

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
