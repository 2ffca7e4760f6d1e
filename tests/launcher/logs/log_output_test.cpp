#include "launcher/logs/log_output.hpp"

#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/pump_console.hpp"

using cxxrun::launcher::LogOutput;
using cxxrun::test::file_text;
using cxxrun::test::TempDir;

TEST_CASE("log_output: full files are numbered, the oldest are removed beyond what is kept", "[process]") {
  TempDir dir;
  LogOutput output;
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
  LogOutput output;
  REQUIRE(output.open(dir / "f", {4, 0}));
  auto const told = output.append("1\n2\n3\n");
  REQUIRE_FALSE(told);
  CHECK(told.error().message().find("is not rotated any more") != std::string::npos);
  CHECK(output.is_open());
  CHECK(output.append("4\n"));
  CHECK(file_text(dir / "f") == "1\n2\n3\n4\n");
}

TEST_CASE("log_output: a disk that is full ends the file, once", "[process]") {
  LogOutput output;
  REQUIRE(output.open("/dev/full", {4096, 0}));
  CHECK_FALSE(output.append("a\n"));
  CHECK_FALSE(output.is_open());
}

TEST_CASE("log_output: without a name there is nothing", "[process]") {
  LogOutput output;
  CHECK(output.open("", {}));
  CHECK_FALSE(output.is_open());
}
