// Futexes in memory that processes share: sleep until a word changes, wake the sleepers. Shell.
//
// Without FUTEX_PRIVATE_FLAG the kernel identifies a futex by the page of the file, so each process may have mapped it
// at another address.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace cxxrun::worker {

using FutexWord = std::atomic<std::uint32_t>;
static_assert(FutexWord::is_always_lock_free && sizeof(FutexWord) == 4);

/// Returns when the word is woken, when it does not hold `expected`, after `most`, or spuriously.
inline void futex_wait(FutexWord& word, std::uint32_t expected, std::chrono::nanoseconds most) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec const limit{static_cast<time_t>(most.count() / kSecond), static_cast<long>(most.count() % kSecond)};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

inline void futex_wake_all(FutexWord& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace cxxrun::worker
