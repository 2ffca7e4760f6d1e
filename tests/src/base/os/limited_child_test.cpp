#include "src/base/os/limited_child.hpp"

#include <array>
#include <csignal>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "src/base/os/fd_io.hpp"
#include "tests/support/catch.hpp"

using cxxrun::Clock;
using cxxrun::Millis;
using cxxrun::os::LimitedChild;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

namespace {

/// The last to go: a child that was killed is not waited for, and its end is not to be found by another case.
struct Reaper {
  Reaper() = default;
  ~Reaper() {
    while (waitpid(-1, nullptr, 0) > 0) {
    }
  }
  Reaper(Reaper const&) = delete;
  Reaper& operator=(Reaper const&) = delete;
};

}  // namespace

TEST_CASE("limited_child: what it says is there when it has ended", "[process]") {
  Reaper const reaper;
  LimitedChild child([](LimitedChild::Say const& say) {
    say(std::string(100'000, 'x'));
    say("end");
  });
  auto const words = child.wait_until(Clock::now() + 20s);
  CHECK(words.ended);
  CHECK(words.said == std::string(100'000, 'x') + "end");
}

TEST_CASE("limited_child: of one that hangs, what it said before, and it is gone afterwards", "[process]") {
  Reaper const reaper;
  pid_t child_pid = 0;
  {
    LimitedChild child([](LimitedChild::Say const& say) {
      say(std::to_string(getpid()));
      for (;;) {
        pause();
      }
    });
    auto const words = child.wait_until(Clock::now() + 500ms);
    CHECK_FALSE(words.ended);
    child_pid = static_cast<pid_t>(std::stol(words.said));
  }
  int status = 0;
  CHECK((waitpid(child_pid, &status, 0) == child_pid ? WTERMSIG(status) == SIGKILL : kill(child_pid, 0) != 0));
}

TEST_CASE("limited_child: one that throws or dies ends early, and its words count", "[process]") {
  Reaper const reaper;
  LimitedChild throws([](LimitedChild::Say const& say) {
    say("a");
    throw 1;  // NOLINT(hicpp-exception-baseclass)
  });
  CHECK(throws.wait_until(Clock::now() + 20s).said == "a");
  LimitedChild dies([](LimitedChild::Say const& say) {
    say("b");
    raise(SIGKILL);
  });
  CHECK(dies.wait_until(Clock::now() + 20s).said == "b");
}

TEST_CASE("limited_child: one that could not be started says why, and did not hang", "[process]") {
  Reaper const reaper;
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  pid_t const tester = fork();
  if (tester == 0) {  // root may have any number of processes
    rlimit const few{0, 0};
    bool const limited = setrlimit(RLIMIT_NPROC, &few) == 0 && (getuid() != 0 || setuid(65534) == 0);
    LimitedChild child([](LimitedChild::Say const&) {});
    auto const words = child.wait_until(Clock::now() + 20s);
    std::string const told = limited && !words.ended ? words.error : "not limited";
    _exit(write(ends[1], told.data(), told.size()) < 0);
  }
  close(ends[1]);
  CHECK(cxxrun::os::read_all(ends[0], 1000).value_or("") == "Resource temporarily unavailable");
  close(ends[0]);
}

TEST_CASE("limited_child: it can be moved, and the others go on beside it", "[process]") {
  Reaper const reaper;
  std::vector<LimitedChild> all;
  for (int i = 0; i < 3; ++i) {
    all.emplace_back([i](LimitedChild::Say const& say) { say(std::to_string(i)); });
  }
  for (int i = 0; i < 3; ++i) {
    CHECK(all[static_cast<std::size_t>(i)].wait_until(Clock::now() + 20s).said == std::to_string(i));
  }
}
