#include "launcher/logs/console_writer.hpp"

#include <array>
#include <fcntl.h>
#include <filesystem>
#include <limits.h>
#include <semaphore>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/os/fd.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/pump_console.hpp"

using cxxrun::Clock;
using cxxrun::launcher::ConsoleWriter;
using cxxrun::launcher::kConsoleFull;
using cxxrun::launcher::kConsoleMost;
using cxxrun::launcher::next_piece;
using cxxrun::test::make_pipe;
using cxxrun::test::TestConsole;

namespace {

constexpr std::chrono::seconds kPlenty{60};

std::string lines(std::size_t bytes) {
  return std::string(bytes - 1, 'x') + "\n";
}

/// A console that is not read, and a writer whose thread is stuck in the first MiB.
struct UnreadConsole {
  TestConsole console;
  std::counting_semaphore<> room{0};
  ConsoleWriter writer{console.fd(), [this] { room.release(); }};

  UnreadConsole() {
    push(kConsoleFull);
    wait_until_taken();
  }
  void push(std::size_t bytes) {
    auto text = lines(bytes);
    writer.push(text);
  }
  void wait_until_taken() {
    while (writer.full()) {
      room.acquire();
    }
  }
};

/// The descriptor of its own that a writer has on the same console.
int own_descriptor(int console) {
  for (auto const& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    int const fd = std::stoi(each.path().filename().string());
    if (fd != console && cxxrun::launcher::same_console(fd, console)) {
      return fd;
    }
  }
  return -1;
}

}  // namespace

TEST_CASE("console_writer: a piece holds as many whole lines as a pipe takes atomically", "[unit]") {
  CHECK(next_piece("a\nb\n") == 4);
  CHECK(next_piece(lines(PIPE_BUF)) == PIPE_BUF);
  CHECK(next_piece(lines(4000) + lines(96) + lines(1)) == 4096);
  CHECK(next_piece(lines(4000) + lines(97)) == 4000);
}

TEST_CASE("console_writer: a piece of a longer line never reaches into the next line", "[unit]") {
  CHECK(next_piece(lines(5000) + lines(10)) == 5000);
  CHECK(next_piece(lines(100'000)) == 65536);
}

TEST_CASE("console_writer: it is full until its reader has taken the first part", "[process]") {
  UnreadConsole c;
  c.push(kConsoleFull);
  CHECK(c.writer.full());

  c.console.start_reading();
  CHECK(c.room.try_acquire_for(kPlenty));
  CHECK(c.writer.finish(Clock::now() + kPlenty));
  CHECK(c.console.text().size() == 2 * kConsoleFull);
}

TEST_CASE("console_writer: what exceeds its memory is counted on the console and reported", "[process]") {
  UnreadConsole c;
  c.push(kConsoleMost);
  c.push(1000);
  c.push(2000);
  c.console.start_reading();
  c.wait_until_taken();
  c.push(4);
  c.push(4);

  CHECK_FALSE(c.writer.finish(Clock::now() + kPlenty));
  auto const end = c.console.text().substr(kConsoleFull + kConsoleMost);
  CHECK_THAT(end,
             Catch::StartsWith("cxxrun: 3000 bytes of output are missing here") && Catch::EndsWith("\nxxx\nxxx\n"));
}

TEST_CASE("console_writer: a socket is written without signals and without changing its flags", "[process]") {
  std::array<int, 2> fds{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0);
  cxxrun::os::UniqueFd const ours(fds[0]);
  cxxrun::os::UniqueFd theirs(fds[1]);
  ConsoleWriter writer(ours.get(), [] {});
  auto text = lines(1'000'000);
  writer.push(text);

  std::string got(1'000'000, '\0');
  CHECK(recv(theirs.get(), got.data(), got.size(), MSG_WAITALL) == 1'000'000);
  CHECK(got == lines(1'000'000));
  theirs.reset();
  writer.push(got);
  CHECK(writer.finish(Clock::now() + kPlenty));
  CHECK((fcntl(ours.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("console_writer: a file is appended to where its descriptor stands", "[process]") {
  cxxrun::test::TempDir dir;
  cxxrun::os::UniqueFd const file(open((dir / "f").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  cxxrun::test::write_all(file.get(), "before\n");
  ConsoleWriter writer(file.get(), [] {});
  std::string text = "after\n";
  writer.push(text);
  CHECK(writer.finish(Clock::now() + kPlenty));
  CHECK(cxxrun::test::file_text(dir / "f") == "before\nafter\n");
}

TEST_CASE("console_writer: a disk that was full is written again when it has room, with a line", "[process]") {
  cxxrun::test::TempDir const dir;
  cxxrun::os::UniqueFd const disk(open("/dev/full", O_WRONLY | O_CLOEXEC));
  cxxrun::os::UniqueFd const room(open((dir / "f").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  std::counting_semaphore<> taken{0};
  ConsoleWriter writer(disk.get(), [&] { taken.release(); });
  for (int i = 0; i < 2; ++i) {  // when the second one is taken, or dropped at once, the first one has found no room
    auto text = lines(kConsoleFull);
    writer.push(text);
    while (writer.full()) {
      taken.acquire();
    }
  }
  REQUIRE(dup3(room.get(), own_descriptor(disk.get()), O_CLOEXEC) >= 0);

  auto const until = Clock::now() + kPlenty;
  while (cxxrun::test::file_text(dir / "f").find("last\n") == std::string::npos && Clock::now() < until) {
    std::string last = "last\n";
    writer.push(last);
  }
  CHECK_THAT(cxxrun::test::file_text(dir / "f"),
             Catch::Contains(" bytes of output are missing here: the disk was full\nlast\n"));
  CHECK_FALSE(writer.finish(Clock::now() + kPlenty));
}

TEST_CASE("console_writer: a descriptor that is not open swallows everything", "[process]") {
  ConsoleWriter writer(-1, [] {});
  std::string text = "nobody\n";
  writer.push(text);
  CHECK(text.empty());
  CHECK_FALSE(writer.full());
  CHECK(writer.finish(Clock::now() + kPlenty));
}

TEST_CASE("console_writer: a terminal is told apart and gets its bytes", "[process]") {
  cxxrun::os::UniqueFd const master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(grantpt(master.get()) == 0);
  REQUIRE(unlockpt(master.get()) == 0);
  cxxrun::os::UniqueFd const terminal(open(ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(terminal);
  ConsoleWriter writer(terminal.get(), [] {});
  CHECK(writer.is_terminal());
  CHECK_FALSE(ConsoleWriter(make_pipe().write.get(), [] {}).is_terminal());

  // More than a terminal buffers, so that the writer has to wait.
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += lines(80);
  }
  auto const bytes = text.size() + 2000;  // each newline is shown as two characters
  writer.push(text);
  std::string buffer(65536, '\0');
  std::size_t got = 0;
  while (got < bytes) {
    auto const n = read(master.get(), buffer.data(), buffer.size());
    REQUIRE(n > 0);
    got += static_cast<std::size_t>(n);
  }
  CHECK(got == bytes);
  CHECK(writer.finish(Clock::now() + kPlenty));
}

TEST_CASE("console_writer: without a thread to be had its lines are written all the same", "[process]") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  pid_t const tester = fork();
  if (tester == 0) {  // root may have any number of threads
    rlimit const few{0, 0};
    if (setrlimit(RLIMIT_NPROC, &few) != 0 || (getuid() == 0 && setuid(65534) != 0)) {
      _exit(2);
    }
    ConsoleWriter writer(ends[1], [] {});
    std::string first = lines(10);
    writer.push(first);
    std::string much = lines(kConsoleFull);  // more than the pipe holds
    writer.push(much);
    bool const held_up = writer.full();  // without a thread nothing would report room again
    _exit(first.empty() && much.empty() && !held_up && writer.finish(Clock::now() + std::chrono::seconds{20}) ? 0 : 1);
  }
  close(ends[1]);
  CHECK(cxxrun::os::read_all(ends[0], 2 * kConsoleFull).value_or("") == lines(10) + lines(kConsoleFull));
  close(ends[0]);
  int status = 0;
  CHECK(waitpid(tester, &status, 0) == tester);
  CHECK(status == 0);
}
