#include "src/base/os/thread.hpp"

#include <future>
#include <pthread.h>
#include <signal.h>

#include "tests/support/catch.hpp"

using cxxrun::Clock;
using cxxrun::os::BoundedThread;

TEST_CASE("bounded_thread: no signal can be taken by it, and the caller's mask is as before", "[process]") {
  std::promise<bool> all_blocked;
  BoundedThread thread("test", [&all_blocked] {
    sigset_t mask{};
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    bool blocked = true;
    for (int const signal : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD, SIGPIPE, SIGALRM}) {
      blocked = blocked && sigismember(&mask, signal) == 1;
    }
    all_blocked.set_value(blocked);
  });
  CHECK(all_blocked.get_future().get());
  CHECK(thread.join_until(Clock::now() + std::chrono::seconds(60)));

  sigset_t mask{};
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  CHECK(sigismember(&mask, SIGTERM) == 0);
}

TEST_CASE("bounded_thread: one that does not end is not waited for", "[process]") {
  auto release = std::make_shared<std::promise<void>>();
  BoundedThread thread("test", [wait = release->get_future().share()] { wait.wait(); });
  CHECK_FALSE(thread.join_until(Clock::now()));
  release->set_value();
  CHECK(thread.join_until(Clock::now() + std::chrono::seconds(60)));
  CHECK(thread.join_until(Clock::now()));
}
