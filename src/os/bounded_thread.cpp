#include "src/os/bounded_thread.hpp"

#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <thread>
#include <utility>

namespace cxxrun::os {
namespace {

/// Outlives whichever of owner and thread goes first.
struct Ended {
  std::mutex mutex;
  std::condition_variable changed;
  bool yes = false;
};

}  // namespace

struct BoundedThread::State {
  std::shared_ptr<Ended> ended = std::make_shared<Ended>();
  std::thread thread;
};

BoundedThread::BoundedThread(char const* name, std::function<void()> body) : state_(std::make_unique<State>()) {
  // The mask is inherited at creation, so that there is no moment in which the thread could take a signal.
  sigset_t every{};
  sigset_t before{};
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before);
  try {
    state_->thread = std::thread([ended = state_->ended, run = std::move(body)]() mutable {
      run();
      run = nullptr;  // what it owned must be gone when the owner is told
      std::lock_guard const lock(ended->mutex);
      ended->yes = true;
      ended->changed.notify_all();
    });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_setname_np(state_->thread.native_handle(), name);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

BoundedThread::~BoundedThread() {
  if (state_->thread.joinable()) {
    state_->thread.detach();
  }
}

bool BoundedThread::join_until(TimePoint deadline) {
  std::unique_lock lock(state_->ended->mutex);
  bool const ended = state_->ended->changed.wait_until(lock, deadline, [this] { return state_->ended->yes; });
  lock.unlock();
  if (ended && state_->thread.joinable()) {
    state_->thread.join();
  }
  return ended;
}

}  // namespace cxxrun::os
