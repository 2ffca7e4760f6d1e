// NamedFate: what an agent does with a worker that others have given up. Pure.
//
// One that waits may be waiting for the culprit: it is asked to give up its own wait (ControlPage::asked), and either
// answers or sleeps. Why and when: docs/design/survival.md; a test plays every row of its table.
#pragma once

#include <cstdint>
#include <optional>

#include "cxxrun/failure.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// How long it may take to end or park by itself.
inline constexpr Millis kNamedPatience{2000};
/// The same for one that has answered: with NCCL it hears its peers first.
inline constexpr Millis kAnsweredPatience{6000};
/// How long one whose process has heard may take to answer. Whoever waits looks around every millisecond, on a CPU that
/// the thread which has heard was given just before.
inline constexpr Millis kAnswer{150};
/// How often to look at one that is not left alone.
inline constexpr Millis kNamedLook{10};

struct NamedWorker {
  std::optional<ExitStatus> end = {};  ///< it has ended
  bool runs = false;                   ///< else: and is not parked
  bool waits = false;                  ///< in a collective
  bool halted = false;                 ///< its process is stopped
  std::optional<Millis> since = {};    ///< so long ago it was asked, or left alone first
  std::optional<Millis> heard = {};    ///< so long ago it was first seen that a thread of it has heard
  bool answered = false;               ///< it gives up its wait
  bool moved = false;                  ///< it has begun or ended a call since
};

enum class NamedFate : std::uint8_t {
  nothing,  ///< the coordinator knows its failure already, or the worker can survive
  failed,   ///< its end is a failure although its code is 0
  killed,
  asked,     ///< it is to be asked
  patience,  ///< to be looked at again: it may be unwinding, or not know yet that the generation cannot succeed
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
