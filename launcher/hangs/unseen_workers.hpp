// UnseenWorkers: what is said of workers that show no collectives: that --hang-timeout sees nothing of them, and which
// of them are stopped or wait in the kernel, as /proc alone tells. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// One worker that runs.
struct UnseenLook {
  std::uint32_t rank = 0;
  int pid = 0;
  char state = '?';    ///< in /proc/PID/stat
  bool shows = false;  ///< it has a page of this generation
};

struct UnseenPolicy {
  Millis limit{60'000};    ///< --hang-timeout, or the 60 s after which a line is due anyway
  bool asked = false;      ///< --hang-timeout is given
  bool watch = true;       ///< --watch
  bool bootstrap = false;  ///< the Python package is there for them
};

struct UnseenState {
  struct Stuck {
    char state = '?';
    TimePoint since;
    bool named = false;
  };
  std::optional<TimePoint> began;  ///< when they were first looked at
  bool said = false;               ///< that nothing is seen, once in an agent's life
  std::map<std::uint32_t, Stuck> stuck;
};

struct UnseenStep {
  UnseenState next;
  std::vector<std::uint32_t> stuck;  ///< ranks to be named now: stopped, or in uninterruptible sleep
  bool blind = false;                ///< now none has shown anything for the limit
};
[[nodiscard]] UnseenStep look_for_unseen(UnseenState state, std::vector<UnseenLook> const& seen, TimePoint now,
                                         UnseenPolicy const& policy);

/// `armed`: one of them has run the package's bootstrap. With what to do instead.
[[nodiscard]] std::string blind_line(std::string const& host, UnseenPolicy const& policy, bool armed);
/// `told`: os::describe_stuck() of it.
[[nodiscard]] std::string stuck_line(std::string const& name, UnseenLook const& worker, std::string const& told,
                                     Millis limit);

}  // namespace cxxrun::launcher
