#include "launcher/console_writer.hpp"

#include <limits.h>
#include <sys/socket.h>

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
  TestConsole console;
  std::promise<void> room;
  ConsoleWriter writer(console.fd(), [&room] { room.set_value(); });
  // The first push may be taken by the thread at once and fill the pipe; what follows stays.
  auto first = lines(kConsoleFull);
  writer.push(first);
  auto second = lines(kConsoleFull);
  writer.push(second);
  CHECK(writer.full());

  console.start_reading();
  CHECK(room.get_future().wait_for(kPlenty) == std::future_status::ready);
  CHECK(writer.finish(Clock::now() + kPlenty));
  CHECK(console.text().size() == 2 * kConsoleFull);
}

TEST_CASE("console_writer: what exceeds its memory is counted on the console and reported", "[process]") {
  TestConsole console;
  ConsoleWriter writer(console.fd(), [] {});
  auto push = [&writer](std::size_t bytes) {
    auto text = lines(bytes);
    writer.push(text);
  };
  auto wait_until_taken = [&writer] {
    while (writer.full()) {
      std::this_thread::yield();
    }
  };
  push(kConsoleFull);  // more than the pipe holds: the thread takes it and stays with it
  wait_until_taken();
  push(kConsoleMost);
  push(1000);
  push(2000);
  console.start_reading();
  wait_until_taken();
  push(4);

  CHECK_FALSE(writer.finish(Clock::now() + kPlenty));
  auto const text = console.text();
  auto const end = text.substr(kConsoleFull + kConsoleMost);
  CHECK_THAT(end, Catch::StartsWith("cxxrun: 3000 bytes of output are missing here") && Catch::EndsWith("\nxxx\n"));
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

TEST_CASE("console_writer: a descriptor that is not open swallows everything", "[process]") {
  ConsoleWriter writer(-1, [] {});
  std::string text = "nobody\n";
  writer.push(text);
  CHECK(text.empty());
  CHECK_FALSE(writer.full());
  CHECK(writer.finish(Clock::now() + kPlenty));
}
