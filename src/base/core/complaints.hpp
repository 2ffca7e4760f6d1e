// Complaints: limits the log lines that callers can cause, so that a flood of callers is no flood of lines. Pure.
//
// The first kInFull lines of a kind within ten seconds are logged; the others are counted, and the count is added to
// the next line. There are few kinds, and all are ours: nothing that a caller sends makes a new one.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/core/time.hpp"

namespace cxxrun {

struct Complaints {
  static constexpr std::size_t kInFull = 8;
  static constexpr Millis kWindow{10'000};
  struct Kind {
    TimePoint since;
    std::size_t said = 0;    ///< logged in this window
    std::size_t untold = 0;  ///< not logged since the last line
  };
  std::map<std::string, Kind, std::less<>> kinds;
};

/// The line to log; "": none.
[[nodiscard]] inline std::string complain(Complaints& complaints, std::string_view kind, std::string line,
                                          TimePoint now) {
  auto& it = complaints.kinds.try_emplace(std::string(kind), Complaints::Kind{now}).first->second;
  if (now - it.since >= Complaints::kWindow) {
    it.since = now;
    it.said = 0;
  }
  if (it.said == Complaints::kInFull) {
    ++it.untold;
    return {};
  }
  if (auto const before = std::exchange(it.untold, 0); before > 0) {
    line += " (and " + std::to_string(before) + " like it before)";
  }
  if (++it.said == Complaints::kInFull) {
    line += " (more like it are only counted for now)";
  }
  return line;
}

}  // namespace cxxrun
