#include "src/base/os/helper_children.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "src/base/os/fd.hpp"
#include "src/base/os/folder.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

using cxxrun::Clock;
using cxxrun::Millis;
using cxxrun::os::LimitedChild;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

namespace {

/// Destroyed last: reaps children that LimitedChild and Caretaker do not wait for, so that no other case finds them.
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

using cxxrun::os::Caretaker;

namespace {

/// A directory of the test's own that contains one as Folder::make_marked() makes it, with a file.
struct Place {
  std::string top = (std::filesystem::temp_directory_path() / "caretaker-XXXXXX").string();
  std::string scratch;
  Place() {
    REQUIRE(mkdtemp(top.data()) != nullptr);
    scratch = top + "/scratch";
    auto const made = cxxrun::os::Folder::open(top).make_marked("scratch");
    REQUIRE(made);
    REQUIRE(made.create("file"));
  }
  ~Place() { std::filesystem::remove_all(top); }
  Place(Place const&) = delete;
  Place& operator=(Place const&) = delete;
};

/// Reads until all writers have ended.
void await_end(int fd) {
  static_cast<void>(cxxrun::os::read_all(fd, 1000));
}

}  // namespace

TEST_CASE("caretaker: what it was told of is gone when its owner goes on, and nothing else", "[process]") {
  Reaper const reaper;
  Place const place;
  std::filesystem::create_directories(place.top + "/other");
  std::filesystem::create_directory_symlink(place.top + "/other", place.scratch + "/link");
  {
    Caretaker const caretaker;
    caretaker.remove_at_end(place.scratch);
    CHECK(std::filesystem::exists(place.scratch));
  }
  CHECK_FALSE(std::filesystem::exists(place.scratch));
  CHECK(std::filesystem::exists(place.top + "/other"));
}

TEST_CASE("caretaker: what somebody has put in the place of what it was told of stays", "[process]") {
  Reaper const reaper;
  Place const place;
  std::filesystem::create_directories(place.top + "/precious");
  std::ofstream(place.top + "/precious/file") << "";
  {
    Caretaker const caretaker;
    caretaker.remove_at_end(place.scratch);
    std::filesystem::rename(place.scratch, place.top + "/away");
    std::filesystem::rename(place.top + "/precious", place.scratch);
  }
  CHECK(std::filesystem::exists(place.scratch + "/file"));
}

TEST_CASE("caretaker: a process that is killed, with all of its group, leaves nothing behind", "[process]") {
  for (int const signal : {SIGINT, SIGTERM, SIGKILL}) {
    Place const place;
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
    pid_t const owner = fork();
    if (owner == 0) {
      setpgid(0, 0);
      std::signal(signal, SIG_DFL);  // Catch's own handler would report it
      Caretaker const caretaker;
      caretaker.remove_at_end(place.scratch);
      kill(0, signal);
      for (;;) {
        pause();
      }
    }
    close(ends[1]);
    REQUIRE(waitpid(owner, nullptr, 0) == owner);
    await_end(ends[0]);  // the caretaker has the other end, too
    close(ends[0]);
    CHECK_FALSE(std::filesystem::exists(place.scratch));
  }
}

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<os::SeenPath> probed(std::vector<std::string> const& paths) {
  auto const probe = os::start_probe(paths);
  REQUIRE(probe);
  REQUIRE(waitpid(probe->pid, nullptr, 0) == probe->pid);
  return os::read_probe(*probe);
}

}  // namespace

TEST_CASE("path probe: what answers, what is not there, what a program's file is", "[process]") {
  test::TempDir const directory;
  auto const seen = probed({directory.path(), directory.file("gone"), "/bin/sh"});
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].error == 0);
  CHECK(seen[1].error == ENOENT);
  CHECK(seen[2].error == 0);
}

TEST_CASE("path probe: a child that looks holds no descriptor of ours", "[process]") {
  auto pipe = test::make_pipe();
  auto const probe = os::start_probe(std::vector<std::string>(5000, "/"));
  REQUIRE(probe);
  pollfd first{probe->output.get(), POLLIN, 0};
  REQUIRE(poll(&first, 1, static_cast<int>(std::chrono::milliseconds(test::kGuard).count())) == 1);
  pipe.write.reset();
  pollfd ended{pipe.read.get(), POLLIN, 0};
  CHECK(poll(&ended, 1, 0) == 1);  // the probe has begun, so it has closed its copy
  kill(probe->pid, SIGKILL);
  REQUIRE(waitpid(probe->pid, nullptr, 0) == probe->pid);
}
