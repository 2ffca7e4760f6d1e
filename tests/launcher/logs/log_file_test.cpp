#include "launcher/logs/log_file.hpp"

#include <filesystem>
#include <sys/stat.h>

#include "tests/support/catch.hpp"
#include "tests/support/pump_console.hpp"

using cxxrun::launcher::append_to_log;
using cxxrun::launcher::LogFile;
using cxxrun::launcher::open_log_file;
using cxxrun::launcher::read_error_file;
using cxxrun::launcher::read_worker_file;
using cxxrun::test::file_text;
using cxxrun::test::TempDir;

TEST_CASE("log_file: opening twice appends twice", "[process]") {
  TempDir dir;
  for (auto const* text : {"one\n", "two\n"}) {
    auto const file = open_log_file(dir / "f");
    REQUIRE(file);
    CHECK(append_to_log(*file, dir / "f", text));
    CHECK((fcntl(file->get(), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(file_text(dir / "f") == "one\ntwo\n");
}

TEST_CASE("log_file: nothing below the log directory is a link, and no file is anything else", "[process]") {
  TempDir dir;
  namespace fs = std::filesystem;
  fs::create_directories(dir / "logs/run/attempt_1/0");
  fs::create_directories(dir / "victims");
  std::ofstream(dir / "victims/stdout.log") << "victim";
  std::string const path = dir / "logs/run/attempt_1/0/stdout.log";
  SECTION("the file is a link") {
    fs::create_symlink(dir / "victims/stdout.log", path);
  }
  SECTION("the file is a hard link") {
    fs::create_hard_link(dir / "victims/stdout.log", path);
  }
  SECTION("the worker's directory is a link") {
    fs::remove(dir / "logs/run/attempt_1/0");
    fs::create_directory_symlink(dir / "victims", dir / "logs/run/attempt_1/0");
  }
  SECTION("the attempt's directory is a link") {
    fs::rename(dir / "victims", dir / "0");
    fs::create_directory(dir / "victims");
    fs::rename(dir / "0", dir / "victims/0");
    fs::remove_all(dir / "logs/run/attempt_1");
    fs::create_directory_symlink(dir / "victims", dir / "logs/run/attempt_1");
  }
  SECTION("the file is a pipe that nobody reads") {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  }
  CHECK_FALSE(open_log_file(path));
}

TEST_CASE("log_file: the log directory itself may be reached through links", "[process]") {
  TempDir dir;
  std::filesystem::create_directories(dir / "real/run/attempt_1/0");
  std::filesystem::create_directory_symlink(dir / "real", dir / "logs");
  CHECK(open_log_file(dir / "logs/run/attempt_1/0/stdout.log"));
}

TEST_CASE("log_file: what a worker has left is read only where it is a file of its own", "[process]") {
  TempDir dir;
  namespace fs = std::filesystem;
  fs::create_directories(dir / "run/attempt_1/0");
  std::ofstream(dir / "secret") << "secret";
  std::string const path = dir / "run/attempt_1/0/error.json";
  SECTION("nothing is there") {}
  SECTION("a link") {
    fs::create_symlink(dir / "secret", path);
  }
  SECTION("its directory is a link") {
    fs::remove(dir / "run/attempt_1/0");
    fs::create_directories(dir / "elsewhere");
    std::ofstream(dir / "elsewhere/error.json") << "secret";
    fs::create_directory_symlink(dir / "elsewhere", dir / "run/attempt_1/0");
  }
  SECTION("a pipe that nobody writes") {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  }
  SECTION("a directory") {
    fs::create_directories(path);
  }
  SECTION("a file of another user's") {
    std::ofstream(path) << "forged";
    CHECK(read_worker_file(path, 100) == "forged");
    if (chown(path.c_str(), 65534, 65534) != 0) {
      WARN("skipped: only root can give a file away");
      return;
    }
  }
  CHECK(read_worker_file(path, 100).empty());
}

TEST_CASE("log_file: of a file that is too large the beginning is read", "[process]") {
  TempDir dir;
  std::ofstream(dir / "f") << std::string(1000, 'x');
  CHECK(read_worker_file(dir / "f", 100) == std::string(100, 'x'));
}

TEST_CASE("log_file: a part of an error file that is too large is not read", "[process]") {
  TempDir dir;
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::ofstream(dir / "f") << std::string(kMost, 'x');
  CHECK(read_error_file(dir / "f").size() == kMost);
  std::ofstream(dir / "f", std::ios::app) << 'x';
  CHECK(read_error_file(dir / "f").empty());
}

TEST_CASE("log_output: full files are numbered, the oldest are removed beyond what is kept", "[process]") {
  TempDir dir;
  LogFile output;
  REQUIRE(output.open(dir / "f", {4, 2}));
  for (auto const* const text : {"1\n2\n", "3\n", "4\n5", "\n6", "6666", "\n7\n8\n"}) {
    REQUIRE(output.append(text));
  }
  CHECK_FALSE(std::filesystem::exists(dir / "f.1"));
  CHECK(file_text(dir / "f.2") == "3\n4\n");
  CHECK(file_text(dir / "f.3") == "5\n66666\n");
  CHECK(file_text(dir / "f") == "7\n8\n");
}

TEST_CASE("log_output: a file that cannot be renamed grows on, and that is told once", "[process]") {
  TempDir dir;
  std::filesystem::create_directories(dir / "f.1/in the way");
  LogFile output;
  REQUIRE(output.open(dir / "f", {4, 0}));
  auto const rotated = output.append("1\n2\n3\n");
  REQUIRE_FALSE(rotated);
  CHECK(rotated.error().message().find("is no longer rotated") != std::string::npos);
  CHECK(output.is_open());
  CHECK(output.append("4\n"));
  CHECK(file_text(dir / "f") == "1\n2\n3\n4\n");
}

TEST_CASE("log_output: a disk that is full ends the file, once", "[process]") {
  LogFile output;
  REQUIRE(output.open("/dev/full", {4096, 0}));
  CHECK_FALSE(output.append("a\n"));
  CHECK_FALSE(output.is_open());
}

TEST_CASE("log_output: without a name there is nothing", "[process]") {
  LogFile output;
  CHECK(output.open("", {}));
  CHECK_FALSE(output.is_open());
}
