#include <cerrno>
#include <chrono>
#include <ctime>
#include <mutex>
#include <pthread.h>
#include <thread>

#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

extern "C" int clockwait_of_old_libc(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                     timespec const* until);

namespace {

int wait_until(pthread_cond_t& condition, std::mutex& mutex, Clock::time_point end) {
  auto const since = std::chrono::nanoseconds(end.time_since_epoch()).count();
  timespec const until{since / 1'000'000'000, since % 1'000'000'000};
  return clockwait_of_old_libc(&condition, mutex.native_handle(), CLOCK_MONOTONIC, &until);
}

}  // namespace

TEST_CASE("newer_libc: an old libc's wait by the steady clock ends at its deadline", "[process]") {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  std::mutex mutex;
  std::scoped_lock const lock(mutex);
  for (auto const begin = Clock::now(); Clock::now() < begin + 1s;) {  // both clocks come to a full second meanwhile
    auto const end = Clock::now() + 20ms;
    REQUIRE(wait_until(condition, mutex, end) == ETIMEDOUT);
    CHECK(Clock::now() > end - 5ms);
    CHECK(Clock::now() < end + 500ms);  // less than a second that was carried wrongly
  }
}

TEST_CASE("newer_libc: an old libc's wait ends when it is signalled", "[process]") {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  std::mutex mutex;
  std::unique_lock lock(mutex);
  bool told = false;
  std::thread teller([&] {
    std::scoped_lock const theirs(mutex);
    told = true;
    pthread_cond_signal(&condition);
  });
  int ended = 0;
  for (auto const end = Clock::now() + 60s; !told && ended == 0;) {
    ended = wait_until(condition, mutex, end);
  }
  CHECK(ended == 0);
  lock.unlock();
  teller.join();
}
