#include "launcher/logs/log_file.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/pump_console.hpp"

using cxxrun::launcher::append_to_log;
using cxxrun::launcher::open_log_file;
using cxxrun::launcher::tail_of_log_file;
using cxxrun::test::TempDir;

TEST_CASE("log_file: opening twice appends twice", "[process]") {
  TempDir dir;
  for (auto const* text : {"one\n", "two\n"}) {
    auto const file = open_log_file(dir / "f");
    REQUIRE(file);
    CHECK(append_to_log(*file, dir / "f", text));
    CHECK((fcntl(file->get(), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(cxxrun::test::file_text(dir / "f") == "one\ntwo\n");
}

TEST_CASE("log_file: the tail of a file has the last twenty lines, also of a large one", "[process]") {
  TempDir dir;
  std::string expected;
  {
    std::ofstream out(dir / "f");
    for (int i = 0; i < 10'000; ++i) {
      auto const line = "line " + std::to_string(i) + "\n";
      out << line;
      expected += i >= 9980 ? line : "";
    }
  }
  CHECK(tail_of_log_file(dir / "f") == expected);
}

TEST_CASE("log_file: a missing, empty or odd file has an empty tail", "[process]") {
  TempDir dir;
  std::ofstream(dir / "empty").flush();
  CHECK(tail_of_log_file(dir / "empty").empty());
  CHECK(tail_of_log_file(dir / "missing").empty());
  CHECK(tail_of_log_file("/dev/zero").empty());
  CHECK(tail_of_log_file(dir.path()).empty());
}
