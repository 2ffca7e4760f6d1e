// Watchdog: ends this process when something that must not take long does. Shell.
#pragma once

#include <algorithm>
#include <future>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

#include "src/base/core/time.hpp"
#include "src/base/os/quiet_thread.hpp"

namespace cxxrun::os {

/// At once, with this as its last line: no destructor, for one of them might hang.
[[noreturn]] inline void end_process(int code, std::string const& line) {
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  ::_exit(code);
}

class Watchdog {
 public:
  static constexpr int kTryAgain = 75;  ///< sysexits.h
  /// Unless it is destroyed within `time`, the process ends at once with exit code kTryAgain, and `what` is its last
  /// line.
  Watchdog(Millis time, std::string what)
      : thread_(start_quiet_thread([this, time = std::min(time, kForever), line = std::move(what) + "\n"] {
          if (done_.get_future().wait_for(time) == std::future_status::timeout) {
            end_process(kTryAgain, line);
          }
        })) {}
  ~Watchdog() {
    done_.set_value();
    thread_.join();
  }
  Watchdog(Watchdog const&) = delete;
  Watchdog& operator=(Watchdog const&) = delete;

 private:
  std::promise<void> done_;
  std::thread thread_;
};

}  // namespace cxxrun::os
