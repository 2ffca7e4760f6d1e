#include "src/os/bounded_thread.hpp"

#include <pthread.h>
#include <system_error>
#include <utility>

#include "src/os/quiet_thread.hpp"

namespace cxxrun::os {

BoundedThread::BoundedThread(char const* name, std::function<void()> body) {
  std::promise<void>
      ended;  // it and the future own what they share: it outlives whichever of owner and thread goes first
  ended_ = ended.get_future();
  thread_ = start_quiet_thread([ended = std::move(ended), run = std::move(body)]() mutable {
    run();
    run = nullptr;  // what it owned must be gone when the owner is told
    ended.set_value();
  });
  pthread_setname_np(thread_.native_handle(), name);
}

std::unique_ptr<BoundedThread> BoundedThread::start(char const* name, std::function<void()> body) {
  try {
    return std::make_unique<BoundedThread>(name, std::move(body));
  } catch (std::system_error const&) {
    return nullptr;
  }
}

BoundedThread::~BoundedThread() {
  if (thread_.joinable()) {
    thread_.detach();
  }
}

bool BoundedThread::join_until(TimePoint deadline) {
  bool const ended = ended_.wait_for(deadline - Clock::now()) == std::future_status::ready;
  if (ended && thread_.joinable()) {
    thread_.join();
  }
  return ended;
}

}  // namespace cxxrun::os
