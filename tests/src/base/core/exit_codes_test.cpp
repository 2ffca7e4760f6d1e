// The exit codes of src/base/core/exit_codes.hpp, of docs/use/exit_codes.md and of the manual page are the same set.
#include <regex>
#include <set>

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

namespace {

/// What the first group of the pattern matches, anywhere in the file.
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
  auto const codes = codes_in("src/base/core/exit_codes.hpp", R"(kExit\w+ = (\d+);)");

  REQUIRE(codes.size() > 5);
  CHECK(codes_in("docs/use/exit_codes.md", R"(\n\| ([1-9]\d*) \|)") == codes);
  CHECK(codes_in("docs/use/cxxrun.1", R"((?:\n| )(1\d\d)(?=[:,]))") == codes);
}
