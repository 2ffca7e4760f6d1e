// Lifeline: shows the local peers of a process that it has died, within microseconds and for any cause. Shell.
//
// A thread of this process owns a robust futex in memory shared with the local peers. When the process ends (SIGKILL,
// exit, exec), the kernel marks the word and wakes a sleeper before it frees the process's memory, which takes 80 ms
// per GiB; sockets and pidfds report later. The futex is raw and not a pthread mutex, because the processes may have
// different C libraries. The thread sleeps on the word of the process that it guards: the ranks guard each other in a
// circle.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "src/base/worker/futex.hpp"

namespace cxxrun::host {

class Lifeline {
 public:
  /// Takes ownership of `mine`; returns when a death of this process would be seen.
  explicit Lifeline(worker::FutexWord& mine);
  /// Gives the word back: afterwards it shows neither life nor death.
  ~Lifeline();
  Lifeline(Lifeline const&) = delete;
  Lifeline& operator=(Lifeline const&) = delete;

  /// Calls `on_death` when the owner of `other` has died: at most once, on the thread of this object. Call once.
  void guard(worker::FutexWord& other, std::function<void()> on_death);

  [[nodiscard]] static bool died(worker::FutexWord const& word) {
    return (word.load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
  }

 private:
  void own();
  void watch();
  void live();

  worker::FutexWord& mine_;
  robust_list_head head_{};
  robust_list entry_{};
  std::atomic<worker::FutexWord*> guarded_{nullptr};
  std::function<void()> on_death_;
  worker::FutexWord owned_{0};
  worker::FutexWord stop_{0};
  worker::FutexWord ended_{0};
  std::thread thread_;
};

}  // namespace cxxrun::host
