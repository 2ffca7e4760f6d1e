#include "src/os/bounded_thread.hpp"

#include <condition_variable>
#include <mutex>
#include <pthread.h>

#include "src/os/quiet_thread.hpp"

namespace cxxrun::os {

/// Outlives whichever of owner and thread goes first.
struct BoundedThread::Ended {
  std::mutex mutex;
  std::condition_variable changed;
  bool yes = false;
};

BoundedThread::BoundedThread(char const* name, std::function<void()> body) : ended_(std::make_shared<Ended>()) {
  thread_ = start_quiet_thread([ended = ended_, run = std::move(body)]() mutable {
    run();
    run = nullptr;  // what it owned must be gone when the owner is told
    std::lock_guard const lock(ended->mutex);
    ended->yes = true;
    ended->changed.notify_all();
  });
  pthread_setname_np(thread_.native_handle(), name);
}

BoundedThread::~BoundedThread() {
  if (thread_.joinable()) {
    thread_.detach();
  }
}

bool BoundedThread::join_until(TimePoint deadline) {
  std::unique_lock lock(ended_->mutex);
  bool const ended = ended_->changed.wait_until(lock, deadline, [this] { return ended_->yes; });
  lock.unlock();
  if (ended && thread_.joinable()) {
    thread_.join();
  }
  return ended;
}

}  // namespace cxxrun::os
