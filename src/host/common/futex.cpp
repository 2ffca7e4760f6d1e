#include "src/host/common/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace cxxrun::host {

// Without FUTEX_PRIVATE_FLAG: the kernel finds sleepers by the page of the file, whatever address it is mapped at.
void futex_wait(FutexWord& word, std::uint32_t expected, std::chrono::nanoseconds most) noexcept {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec const limit{static_cast<time_t>(most.count() / kSecond), static_cast<long>(most.count() % kSecond)};
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake_all(FutexWord& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace cxxrun::host
