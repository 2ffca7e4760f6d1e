#include "src/base/os/caretaker.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/os/fd_io.hpp"
#include "tests/support/catch.hpp"

using cxxrun::os::Caretaker;

namespace {

/// A directory of the test's own with one in it that is not empty.
struct Place {
  std::string top = (std::filesystem::temp_directory_path() / "caretaker-XXXXXX").string();
  std::string scratch;
  Place() {
    REQUIRE(mkdtemp(top.data()) != nullptr);
    scratch = top + "/scratch";
    std::filesystem::create_directories(scratch + "/deeper");
  }
  ~Place() { std::filesystem::remove_all(top); }
  Place(Place const&) = delete;
  Place& operator=(Place const&) = delete;
};

/// Reads until all who write have ended.
void await_end(int fd) {
  static_cast<void>(cxxrun::os::read_all(fd, 1000));
}

}  // namespace

TEST_CASE("caretaker: what it was told of is gone when its owner goes on, and nothing else", "[process]") {
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

TEST_CASE("caretaker: a process that is killed, with all of its group, leaves nothing behind", "[process]") {
  for (int const signal : {SIGINT, SIGTERM, SIGKILL}) {
    Place const place;
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
    pid_t const owner = fork();
    if (owner == 0) {
      setpgid(0, 0);
      std::signal(signal, SIG_DFL);  // the tests' own tells of it
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
