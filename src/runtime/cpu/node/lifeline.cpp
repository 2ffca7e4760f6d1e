#include "src/runtime/cpu/node/lifeline.hpp"

#include <utility>

#include "src/base/os/thread.hpp"

namespace cxxrun::host {

constexpr std::chrono::milliseconds kWakeUp{100};  ///< a missed wake-up costs at most this
constexpr std::chrono::milliseconds kSoon{1};

Lifeline::Lifeline(worker::FutexWord& mine) : mine_(mine) {
  thread_ = os::start_quiet_thread([this] { live(); });
  owned_.wait(0);
}

Lifeline::~Lifeline() {
  stop_.store(1);
  while (ended_.load() == 0) {  // repeat, because the thread may be just about to sleep
    worker::futex_wake_all(stop_);
    if (worker::FutexWord* const other = guarded_.load()) {
      worker::futex_wake_all(*other);
    }
    worker::futex_wait(ended_, 0, kSoon);
  }
  thread_.join();
}

void Lifeline::guard(worker::FutexWord& other, std::function<void()> on_death) {
  on_death_ = std::move(on_death);
  guarded_.store(&other, std::memory_order_release);
  worker::futex_wake_all(stop_);
}

// The kernel reads the robust list when the thread ends. The entry is private; only the word is in shared memory, at
// `futex_offset` from the entry. The kernel only wakes a sleeper if FUTEX_WAITERS is set, so it is always set.
void Lifeline::own() {
  entry_.next = &head_.list;
  head_.list.next = &entry_;
  head_.futex_offset =
      static_cast<long>(reinterpret_cast<std::intptr_t>(&mine_) - reinterpret_cast<std::intptr_t>(&entry_));
  head_.list_op_pending = nullptr;
  syscall(SYS_set_robust_list, &head_, sizeof head_);
  auto const id = static_cast<std::uint32_t>(syscall(SYS_gettid));
  mine_.store(id | FUTEX_WAITERS);
}

void Lifeline::watch() {
  worker::FutexWord& other = *guarded_.load(std::memory_order_acquire);
  while (stop_.load() == 0) {
    std::uint32_t const seen = other.load(std::memory_order_acquire);
    if ((seen & FUTEX_OWNER_DIED) != 0) {
      on_death_();
      return;
    }
    if (seen == 0) {
      return;  // its owner has left
    }
    worker::futex_wait(other, seen, kWakeUp);
  }
}

void Lifeline::live() {
  own();
  owned_.store(1);
  owned_.notify_one();
  while (stop_.load() == 0 && guarded_.load() == nullptr) {
    worker::futex_wait(stop_, 0, kWakeUp);
  }
  if (stop_.load() == 0) {
    watch();
  }
  while (stop_.load() == 0) {
    worker::futex_wait(stop_, 0, kWakeUp);
  }
  head_.list.next = &head_.list;
  mine_.store(0);
  ended_.store(1);
  worker::futex_wake_all(ended_);
}

}  // namespace cxxrun::host
