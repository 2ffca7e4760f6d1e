// Watchdog: ends this process when something that must not take long does. Shell.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "src/core/time.hpp"

namespace cxxrun::client {

class Watchdog {
 public:
  /// Unless it is destroyed within `time`, the process ends at once with exit code 75, and `what` is its last line.
  Watchdog(Millis time, std::string what);
  ~Watchdog();
  Watchdog(Watchdog const&) = delete;
  Watchdog& operator=(Watchdog const&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace cxxrun::client
