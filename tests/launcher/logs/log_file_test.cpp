#include "launcher/logs/log_file.hpp"

#include <filesystem>
#include <sys/stat.h>

#include "tests/support/catch.hpp"
#include "tests/support/pump_console.hpp"

using cxxrun::launcher::append_to_log;
using cxxrun::launcher::open_log_file;
using cxxrun::launcher::read_worker_file;
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
  CHECK(read_worker_file(path, 100).empty());
}

TEST_CASE("log_file: of a file that is too large the beginning is read", "[process]") {
  TempDir dir;
  std::ofstream(dir / "f") << std::string(1000, 'x');
  CHECK(read_worker_file(dir / "f", 100) == std::string(100, 'x'));
}
