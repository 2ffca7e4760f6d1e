#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <set>
#include <thread>
#include <unistd.h>

#include "tests/support/catch.hpp"

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

extern "C" int clockwait_of_old_libc(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                     timespec const* until);
extern "C" int close_range_of_old_libc(unsigned first, unsigned last, int flags);
extern "C" std::uint32_t arc4random_of_old_libc();
extern "C" int find_object_of_old_libc(void* address, dl_find_object* found) noexcept;

namespace {

int wait_until(pthread_cond_t& condition, std::mutex& mutex, Steady::time_point end) {
  auto const since = std::chrono::nanoseconds(end.time_since_epoch()).count();
  timespec const until{since / 1'000'000'000, since % 1'000'000'000};
  return clockwait_of_old_libc(&condition, mutex.native_handle(), CLOCK_MONOTONIC, &until);
}

}  // namespace

TEST_CASE("newer_libc: an old libc's wait by the steady clock ends at its deadline", "[process]") {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  std::mutex mutex;
  std::scoped_lock const lock(mutex);
  for (auto const begin = Steady::now(); Steady::now() < begin + 1s;) {  // meanwhile both clocks pass a full second
    auto const end = Steady::now() + 20ms;
    REQUIRE(wait_until(condition, mutex, end) == ETIMEDOUT);
    CHECK(Steady::now() > end - 5ms);
    CHECK(Steady::now() < end + 500ms);  // a wrong carry would be a second
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
  for (auto const end = Steady::now() + 60s; !told && ended == 0;) {
    ended = wait_until(condition, mutex, end);
  }
  CHECK(ended == 0);
  lock.unlock();
  teller.join();
}

TEST_CASE("newer_libc: descriptors of a range are closed, and no other", "[process]") {
  std::array<int, 3> const files{fcntl(0, F_DUPFD, 700), fcntl(0, F_DUPFD, 701), fcntl(0, F_DUPFD, 702)};
  REQUIRE(files == std::array{700, 701, 702});
  if (close_range_of_old_libc(701, 701, 0) != 0) {
    CHECK((errno == ENOSYS || errno == EPERM));  // a kernel of that time, or a filter
    close(701);
  }
  CHECK(fcntl(701, F_GETFD) == -1);
  CHECK(close(700) == 0);
  CHECK(close(702) == 0);
}

TEST_CASE("newer_libc: random numbers differ", "[process]") {
  std::set<std::uint32_t> numbers;
  for (int i = 0; i < 100; ++i) {
    numbers.insert(arc4random_of_old_libc());
  }
  CHECK(numbers.size() > 95);
}

TEST_CASE("newer_libc: the unwinder is told of an address what this libc tells", "[process]") {
  int stack = 0;
  for (void* const address :
       {reinterpret_cast<void*>(&wait_until), reinterpret_cast<void*>(&std::abort),
        reinterpret_cast<void*>(&pthread_create), static_cast<void*>(&stack), static_cast<void*>(nullptr)}) {
    dl_find_object ours{};
    dl_find_object its{};
    int const found = _dl_find_object(address, &its);
    CHECK(find_object_of_old_libc(address, &ours) == found);
    if (found == 0) {
      CHECK(ours.dlfo_eh_frame == its.dlfo_eh_frame);
      CHECK(ours.dlfo_map_start <= address);
      CHECK(ours.dlfo_map_end > address);
    }
  }
}
