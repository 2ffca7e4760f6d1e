// BoundedThread: a thread that takes no signals and whose end is waited for only until a deadline.
//
// For threads that may hang in the operating system (a terminal that nobody reads, a dead NFS server): the process
// must be able to end without them. The body must own, by shared_ptr, everything it touches.
#pragma once

#include <functional>
#include <future>
#include <thread>

#include "src/core/time.hpp"

namespace cxxrun::os {

class BoundedThread {
 public:
  /// Starts `body` with every signal blocked. `name`: at most 15 characters, shown by ps -L. Throws
  /// std::system_error when no thread can be made.
  BoundedThread(char const* name, std::function<void()> body);
  /// The same; null when no thread can be made.
  [[nodiscard]] static std::unique_ptr<BoundedThread> start(char const* name, std::function<void()> body);
  /// Lets the thread go, still running, when it has not been joined.
  ~BoundedThread();
  BoundedThread(BoundedThread const&) = delete;
  BoundedThread& operator=(BoundedThread const&) = delete;

  /// True: the body has returned and the thread is gone. False: it still runs at the deadline; may be asked again.
  bool join_until(TimePoint deadline);

 private:
  std::future<void> ended_;
  std::thread thread_;
};

}  // namespace cxxrun::os
