// Threads of our own: without signals, with a bounded wait for their end, and a watchdog. Shell.
#pragma once

#include <algorithm>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <pthread.h>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include "src/base/core/time.hpp"

namespace cxxrun::os {

/// Starts a thread with all signals blocked: the program's signal handlers never run on it.
template <class Body>
[[nodiscard]] std::thread start_quiet_thread(Body&& body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits the mask
  try {
    std::thread thread(std::forward<Body>(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

/// A quiet thread whose end is awaited only until a deadline. For threads that may hang in the operating system (a
/// terminal that nobody reads, a dead NFS server): the process must be able to end without them. The body must own, by
/// shared_ptr, everything that it touches.
class BoundedThread {
 public:
  /// Starts `body` with every signal blocked. `name`: at most 15 characters, shown by ps -L. Throws
  /// std::system_error when no thread can be made.
  BoundedThread(char const* name, std::function<void()> body) {
    std::promise<void> ended;  // shares its state with ended_: the thread may outlive this object
    ended_ = ended.get_future();
    thread_ = start_quiet_thread([ended = std::move(ended), run = std::move(body)]() mutable {
      run();
      run = nullptr;  // destroys what the body owns before join_until() returns
      ended.set_value();
    });
    pthread_setname_np(thread_.native_handle(), name);
  }
  /// The same, but null when no thread can be made.
  [[nodiscard]] static std::unique_ptr<BoundedThread> start(char const* name, std::function<void()> body) {
    try {
      return std::make_unique<BoundedThread>(name, std::move(body));
    } catch (std::system_error const&) {
      return nullptr;
    }
  }
  /// Detaches the thread if it has not been joined.
  ~BoundedThread() {
    if (thread_.joinable()) {
      thread_.detach();
    }
  }
  BoundedThread(BoundedThread const&) = delete;
  BoundedThread& operator=(BoundedThread const&) = delete;

  /// True: the body has returned and the thread is gone. False: it still runs at the deadline; try again later.
  bool join_until(TimePoint deadline) {
    bool const ended = ended_.wait_for(deadline - Clock::now()) == std::future_status::ready;
    if (ended && thread_.joinable()) {
      thread_.join();
    }
    return ended;
  }

 private:
  std::future<void> ended_;
  std::thread thread_;
};

/// Ends the process at once, after this line on stderr. Runs no destructor, because one might hang.
[[noreturn]] inline void end_process(int code, std::string const& line) {
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  ::_exit(code);
}

/// Ends the process when something that must not take long does.
class Watchdog {
 public:
  static constexpr int kTryAgain = 75;  ///< sysexits.h
  /// If it is not destroyed within `time`, the process ends with exit code kTryAgain, and `what` is its last line.
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
