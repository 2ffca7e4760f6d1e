// NamedFate: what an agent does with a worker that others have given up. Pure.
//
// Why and when: docs/design/survival.md; a test plays every row of its table.
#pragma once

#include <cstdint>
#include <optional>

#include "cxxrun/failure.hpp"
#include "src/core/exit_status.hpp"
#include "src/core/time.hpp"

namespace cxxrun::launcher {

/// How long it may take to end or park by itself.
inline constexpr Millis kNamedPatience{2000};

struct NamedWorker {
  std::optional<ExitStatus> end = {};  ///< it has ended
  bool runs = false;                   ///< else: and is not parked
  bool waits = false;                  ///< in a collective
  bool halted = false;                 ///< its process is stopped
  bool had_patience = false;           ///< it has been left alone for kNamedPatience
};

enum class NamedFate : std::uint8_t {
  nothing,  ///< the coordinator knows its failure already, or the worker can survive
  failed,   ///< its end is a failure although its code is 0
  killed,
  patience,  ///< it may be unwinding, or not know yet that the generation cannot succeed
};

[[nodiscard]] inline NamedFate fate_of(PeerFailure::Why named, NamedWorker const& worker) {
  if (worker.end) {
    return worker.end->ok() ? NamedFate::failed : NamedFate::nothing;
  }
  if (!worker.runs) {
    return NamedFate::nothing;
  }
  bool const hangs = named == PeerFailure::Why::timeout && (worker.halted || !worker.waits);
  return hangs || worker.had_patience ? NamedFate::killed : NamedFate::patience;
}

}  // namespace cxxrun::launcher
