#include "src/base/os/standard_input.hpp"

#include <array>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/os/fd.hpp"
#include "tests/support/catch.hpp"

using cxxrun::os::UniqueFd;

namespace {

/// Replaces standard input during its lifetime.
class Input {
 public:
  explicit Input(int fd) { dup2(fd, STDIN_FILENO); }
  Input(Input const&) = delete;
  Input& operator=(Input const&) = delete;
  ~Input() { dup2(before_.get(), STDIN_FILENO); }

 private:
  UniqueFd before_{fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)};
};

/// This process looks like a shell during its lifetime.
class Shell {
 public:
  Shell() {
    prctl(PR_GET_NAME, before_.data());
    prctl(PR_SET_NAME, "sh");
  }
  Shell(Shell const&) = delete;
  Shell& operator=(Shell const&) = delete;
  ~Shell() { prctl(PR_SET_NAME, before_.data()); }

 private:
  std::array<char, 16> before_{};
};

/// Whether a child takes its input for that of a script around it.
bool child_takes_input_for_a_script() {
  pid_t const child = fork();
  if (child == 0) {
    _exit(cxxrun::os::input_is_of_ancestor() ? 1 : 0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

}  // namespace

TEST_CASE("standard_input: what waits in a pipe is counted and not read, a file only until somebody has read from it",
          "[process]") {
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  UniqueFd const read_end(ends[0]);
  UniqueFd const write_end(ends[1]);
  {
    Input const input(read_end.get());
    CHECK(cxxrun::os::waiting_input() == 0);
    REQUIRE(write(write_end.get(), "abc", 3) == 3);
    CHECK(cxxrun::os::waiting_input() == 3);
    CHECK(cxxrun::os::waiting_input() == 3);
    CHECK_FALSE(cxxrun::os::input_is_null());
    CHECK_FALSE(cxxrun::os::input_is_in_background());
    CHECK_FALSE(cxxrun::os::input_is_of_ancestor());
  }
  UniqueFd const file(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  REQUIRE(file);
  REQUIRE(write(file.get(), "abcd", 4) == 4);
  Input const input(file.get());
  CHECK(cxxrun::os::waiting_input() == 0);
  REQUIRE(lseek(file.get(), 0, SEEK_SET) == 0);
  CHECK(cxxrun::os::waiting_input() == 4);
}

TEST_CASE("standard_input: a file that a shell has, too, is the script's once somebody has read from it", "[process]") {
  UniqueFd const file(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  REQUIRE(file);
  REQUIRE(write(file.get(), "one\ntwo\n", 8) == 8);
  Input const input(file.get());
  Shell const shell;
  REQUIRE(lseek(file.get(), 0, SEEK_SET) == 0);
  CHECK_FALSE(child_takes_input_for_a_script());  // dash: program < file
  REQUIRE(lseek(file.get(), 4, SEEK_SET) == 4);
  CHECK(child_takes_input_for_a_script());
}

TEST_CASE("standard_input: the null device has nothing, and an endless device waits for nobody", "[process]") {
  for (bool const null : {true, false}) {
    UniqueFd const device(open(null ? "/dev/null" : "/dev/zero", O_RDONLY | O_CLOEXEC));
    Input const input(device.get());
    CHECK(cxxrun::os::input_is_null() == null);
    CHECK(cxxrun::os::waiting_input() == 0);
  }
}

TEST_CASE("standard_input: shells and scripts read lines and start others, wrappers only start them", "[process]") {
  for (char const* const name : {"bash", "sh", "dash", "zsh", "python3", "python3.11", "perl"}) {
    CHECK(cxxrun::os::reads_lines(name));
  }
  for (char const* const name : {"timeout", "cxxrun", "nice", "sshd", "slurmstepd", "strace", "srun"}) {
    CHECK_FALSE(cxxrun::os::reads_lines(name));
  }
}
