// BoundedThread: a thread that takes no signals and whose end is waited for only until a deadline.
//
// For threads that may hang in the operating system (a terminal that nobody reads, a dead NFS server): the process
// must be able to end without them. The body must own, by shared_ptr, everything it touches.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/core/time.hpp"
#include "src/base/os/quiet_thread.hpp"

namespace cxxrun::os {

class BoundedThread {
 public:
  /// Starts `body` with every signal blocked. `name`: at most 15 characters, shown by ps -L. Throws
  /// std::system_error when no thread can be made.
  BoundedThread(char const* name, std::function<void()> body) {
    std::promise<void> ended;  // it and the future own what they share: that outlives whichever of the two goes first
    ended_ = ended.get_future();
    thread_ = start_quiet_thread([ended = std::move(ended), run = std::move(body)]() mutable {
      run();
      run = nullptr;  // what it owned must be gone when the owner is told
      ended.set_value();
    });
    pthread_setname_np(thread_.native_handle(), name);
  }
  /// The same; null when no thread can be made.
  [[nodiscard]] static std::unique_ptr<BoundedThread> start(char const* name, std::function<void()> body) {
    try {
      return std::make_unique<BoundedThread>(name, std::move(body));
    } catch (std::system_error const&) {
      return nullptr;
    }
  }
  /// Lets the thread go, still running, when it has not been joined.
  ~BoundedThread() {
    if (thread_.joinable()) {
      thread_.detach();
    }
  }
  BoundedThread(BoundedThread const&) = delete;
  BoundedThread& operator=(BoundedThread const&) = delete;

  /// True: the body has returned and the thread is gone. False: it still runs at the deadline; may be asked again.
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

}  // namespace cxxrun::os
