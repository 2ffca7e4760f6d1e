// Futex words in memory that processes share: sleeping until a word changes, waking who sleeps. Shell.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace cxxrun::host {

using FutexWord = std::atomic<std::uint32_t>;
static_assert(FutexWord::is_always_lock_free && sizeof(FutexWord) == 4);

/// Returns when somebody wakes the word, when it does not hold `expected` (any more), after `most`, or for no reason.
void futex_wait(FutexWord& word, std::uint32_t expected, std::chrono::nanoseconds most) noexcept;
void futex_wake_all(FutexWord& word) noexcept;

}  // namespace cxxrun::host
