// Mates: the other processes of this node, as seen by whoever waits for something else (a rail, for example).
#pragma once

#include "src/base/core/time.hpp"

namespace cxxrun::host {

/// How long one call may wait. `began` is for PeerFailure::after.
struct Patience {
  TimePoint began;
  TimePoint until;
  bool hurries = true;  ///< it is given up when that is asked for (Hurry)
  Millis grace{0};      ///< so much longer for another node, where a rank of that node may know better who is late
};

class Mates {
 public:
  Mates() = default;
  Mates(Mates const&) = delete;
  Mates& operator=(Mates const&) = delete;
  virtual ~Mates() = default;
  /// Throws the node's PeerFailure or Failure when a mate has died or has told the others that the call failed.
  /// Cheap; whoever waits calls it at least every millisecond.
  virtual void check(Patience const& patience) = 0;
  /// Shown to the mates: this process is held up by `rank` of another node (-1: no more). A mate whose patience
  /// ends while it waits for this process then names `rank`.
  virtual void held_up_by(int rank) = 0;
  /// Whether to name the culprit at once, although `until` has not come. Throws where it is to be given up and nobody
  /// named.
  [[nodiscard]] virtual bool hurried(Patience const& /*patience*/) { return false; }
  /// How much longer than `until` to wait in this call: as long as this process was stopped itself (SIGSTOP, scontrol
  /// suspend), and perhaps the others with it. As of the last check().
  [[nodiscard]] virtual Clock::duration stopped() const { return {}; }
};

}  // namespace cxxrun::host
