#include "src/runtime/cpu/common/fault_points.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

#include "cxxrun/failure.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::host {
namespace {

constexpr std::array<std::string_view, 8> kPoints{"enter",       "copy_in", "reduce",   "rail",
                                                  "rail_middle", "meet",    "copy_out", "leave"};
constexpr int kExitCode = 17;

struct Fault {
  std::uint64_t call = 0;
  FaultPoint at = FaultPoint::enter;
  std::string how;
};
Fault fault_set;
// Several Communicators of a process count and check at the same time, each on its own thread.
std::atomic<bool> armed{false};  // fault_set is written before
std::atomic<std::uint64_t> calls{0};

[[noreturn]] void refuse(std::string const& text) {
  throw Failure(fail(Errc::environment, "CXXRUN_FAULT is \"" + text +
                                            "\", not like \"rank=1,call=3,at=reduce,do=kill\" (at: enter, copy_in, "
                                            "reduce, rail, rail_middle, meet, copy_out, leave; do: kill, stop, exit)"));
}

}  // namespace

void arm_faults(int rank, char const* set) {
  armed = false;
  calls = 0;
  std::string const whole = set == nullptr ? "" : set;
  if (whole.empty()) {
    return;
  }
  Fault fault;
  std::optional<std::uint64_t> whose;
  for (std::string const& word : split(whole, ',')) {
    auto const parts = split(word, '=');
    std::string const& key = parts.front();
    std::string const& value = parts.back();
    auto const number = number_in<std::uint64_t>(value);
    auto const* const point = std::find(kPoints.begin(), kPoints.end(), value);
    if (parts.size() != 2) {  // NOLINT(bugprone-branch-clone): an error like the last one
      refuse(whole);
    } else if (key == "rank" && number) {
      whose = number;
    } else if (key == "call" && number) {
      fault.call = *number;
    } else if (key == "at" && point != kPoints.end()) {
      fault.at = static_cast<FaultPoint>(point - kPoints.begin());
    } else if (key == "do" && (value == "kill" || value == "stop" || value == "exit")) {
      fault.how = value;
    } else {
      refuse(whole);
    }
  }
  if (!whose || fault.call == 0 || fault.how.empty()) {
    refuse(whole);
  }
  if (*whose == static_cast<std::uint64_t>(rank)) {
    fault_set = fault;
    armed = true;
  }
}

void count_call() {
  calls.fetch_add(1, std::memory_order_relaxed);
}

void fault_point(FaultPoint point) {
  if (!armed.load(std::memory_order_acquire) || fault_set.at != point ||
      fault_set.call != calls.load(std::memory_order_relaxed) || !armed.exchange(false)) {
    return;
  }
  std::string const how = fault_set.how;
  if (how == "exit") {
    _exit(kExitCode);
  }
  kill(getpid(), how == "kill" ? SIGKILL : SIGSTOP);
}

}  // namespace cxxrun::host
