#include "src/base/core/exit_status.hpp"

#include <cerrno>
#include <regex>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using cxxrun::ExitStatus;

TEST_CASE("exit_status: the shell code is the code, or 128 plus the signal", "[unit]") {
  CHECK(ExitStatus::exited(3).shell_code() == 3);
  CHECK(ExitStatus::signalled(9).shell_code() == 137);
  CHECK(ExitStatus::not_started(ENOENT).shell_code() == 127);
  CHECK(ExitStatus::not_started(EACCES).shell_code() == 126);
  CHECK(ExitStatus::not_started(EMFILE).shell_code() == 111);
}

TEST_CASE("exit_status: a wait status of 9 is exit code 0 killed by signal 9, not exit code 9", "[unit]") {
  CHECK(ExitStatus::from_wait(9) == ExitStatus::signalled(9));
  CHECK(ExitStatus::from_wait(9 << 8) == ExitStatus::exited(9));
  CHECK(ExitStatus::from_wait(0x80 | 11).core_dumped);
}

TEST_CASE("exit_status: signals are found by every usual name", "[unit]") {
  CHECK(cxxrun::signal_number("TERM") == 15);
  CHECK(cxxrun::signal_number("SIGTERM") == 15);
  CHECK(cxxrun::signal_number("15") == 15);
  CHECK(cxxrun::signal_number("SIGTER") == std::nullopt);
  CHECK(cxxrun::signal_name(15) == "SIGTERM");
  CHECK(cxxrun::signal_name(64) == "SIG64");
}

namespace {

/// All numbers that the first group of the pattern matches in the file.
std::set<int> codes_in(std::string const& path, std::string const& pattern) {
  auto const text = cxxrun::testing::read_file(std::string(CXXRUN_SOURCE_DIR) + "/" + path);
  std::regex const code(pattern);
  std::set<int> codes;
  for (std::sregex_iterator it(text.begin(), text.end(), code); it != std::sregex_iterator(); ++it) {
    codes.insert(std::stoi((*it)[1]));
  }
  return codes;
}

}  // namespace

TEST_CASE("exit_codes: the pages for users list every code of the header, and no other", "[unit]") {
  auto const codes = codes_in("src/base/core/exit_status.hpp", R"(kExit\w+ = (\d+);)");

  REQUIRE(codes.size() > 5);
  CHECK(codes_in("docs/use/exit_codes.md", R"(\n\| ([1-9]\d*) \|)") == codes);
  CHECK(codes_in("docs/use/cxxrun.1", R"((?:\n| )(1\d\d)(?=[:,]))") == codes);
}
