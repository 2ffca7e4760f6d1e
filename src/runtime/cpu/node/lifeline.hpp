// Lifeline: tells the mates of a process that it is dead, within microseconds and whatever it dies of. Shell.
//
// A thread of this process owns a robust futex in memory that the mates share. When the process ends (SIGKILL, exit,
// exec), the kernel marks the word and wakes a sleeper before it frees the process's memory, which takes 80 ms per GiB;
// sockets and pidfds tell later. The futex is raw, not a pthread mutex: the processes may have different C libraries.
// It sleeps on the word of the process that it guards: ranks guard each other in a circle.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "src/base/worker/futex.hpp"

namespace cxxrun::host {

class Lifeline {
 public:
  /// Takes `mine`; returns when a death of this process would be seen.
  explicit Lifeline(FutexWord& mine);
  /// Gives the word back; whoever looks afterwards sees neither life nor death.
  ~Lifeline();
  Lifeline(Lifeline const&) = delete;
  Lifeline& operator=(Lifeline const&) = delete;

  /// Calls `on_death`, on the thread of this object and at most once, when the owner of `other` has died. Call once.
  void guard(FutexWord& other, std::function<void()> on_death);

  [[nodiscard]] static bool died(FutexWord const& word) {
    return (word.load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
  }

 private:
  void own();
  void watch();
  void live();

  FutexWord& mine_;
  robust_list_head head_{};
  robust_list entry_{};
  std::atomic<FutexWord*> guarded_{nullptr};
  std::function<void()> on_death_;
  FutexWord owned_{0};
  FutexWord stop_{0};
  FutexWord ended_{0};
  std::thread thread_;
};

}  // namespace cxxrun::host
