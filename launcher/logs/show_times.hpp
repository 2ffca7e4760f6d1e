// ShowTimes: when a line that has begun and not ended is shown. Pure.
//
// Soon. But a progress bar, or a line to which dots are added, is not to fill the console: it is shown every kBarEvery
// while it moves, and when it rests.
#pragma once

#include <algorithm>
#include <optional>

#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// A line that is unfinished for so long is shown as it is.
inline constexpr Millis kUnfinishedFor{750};
/// The same where somebody may have to answer it: a program writes a line in several pieces, too.
inline constexpr Millis kPromptFor{50};
inline constexpr Millis kBarEvery{5000};
/// A bar that has not moved for kUnfinishedFor is shown again after this.
inline constexpr Millis kBarAtLeast{2000};

/// What has been shown so often before it ended moves like a bar.
inline constexpr int kFewPieces = 3;

class ShowTimes {
 public:
  /// `patience`: how long a line may be unfinished.
  explicit ShowTimes(Millis patience) : patience_(patience) {}

  /// A line has ended: what comes belongs to the next one.
  void ended() {
    first_ = std::nullopt;
    pieces_ = 0;
  }
  void came(TimePoint now) {
    first_ = first_.value_or(now);
    newest_ = now;
  }
  void shown(TimePoint now) {
    first_ = std::nullopt;
    shown_ = now;
    ++pieces_;
  }
  /// When to show what has come since it was shown last. `bar`: the line is redrawn.
  [[nodiscard]] TimePoint due(bool bar) const {
    auto const first = first_.value_or(newest_);
    bool const moves = (bar && pieces_ > 0) || (pieces_ >= kFewPieces && patience_ >= kUnfinishedFor);
    return moves ? std::min(std::max(shown_ + kBarAtLeast, newest_ + kUnfinishedFor), shown_ + kBarEvery)
                 : first + patience_;
  }

 private:
  Millis patience_;
  std::optional<TimePoint> first_;  ///< byte that was not shown
  TimePoint newest_;
  TimePoint shown_;
  int pieces_ = 0;  ///< of the line that were shown
};

}  // namespace cxxrun::launcher
