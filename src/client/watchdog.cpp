#include "src/client/watchdog.hpp"

#include <unistd.h>
#include <utility>

#include "src/os/quiet_thread.hpp"

namespace cxxrun::client {
namespace {

constexpr int kTryAgain = 75;  // sysexits.h

}  // namespace

Watchdog::Watchdog(Millis time, std::string what)
    : thread_(os::start_quiet_thread([this, time = std::min(time, kForever), line = std::move(what) + "\n"] {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, time, [this] { return done_; })) {
          static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
          ::_exit(kTryAgain);  // no destructor: one of them is what hangs
        }
      })) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard const lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

}  // namespace cxxrun::client
