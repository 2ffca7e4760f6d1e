// The option names of the table, the man page, the shell completion and docs/use/torchrun.md are the same set.
#include <regex>
#include <set>

#include "launcher/options/parse_options.hpp"
#include "src/core/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using cxxrun::testing::read_file;
using Names = std::set<std::string>;

namespace {

cxxrun::launcher::Command command() {
  static cxxrun::launcher::Options options;
  return cxxrun::launcher::cxxrun_command(options);
}

Names names_in(std::string const& text) {
  static std::regex const pattern("--[a-z][a-z-]*");
  Names names;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern); it != std::sregex_iterator(); ++it) {
    names.insert(it->str());
  }
  return names;
}

Names table_names() {
  Names names;
  for (auto const& row : command().rows()) {
    names.insert(row.name);
  }
  return names;
}

std::string source(std::string const& path) {
  return read_file(std::string(CXXRUN_SOURCE_DIR) + "/" + path);
}

}  // namespace

TEST_CASE("option names: the man page explains exactly the options of the table", "[unit]") {
  std::string tags;
  bool tagged = false;
  auto const lines = cxxrun::split(source("docs/use/cxxrun.1"), '\n');
  for (auto const& line : lines) {
    tags += tagged ? cxxrun::replace_all(line, "\\-", "-") + "\n" : "";
    tagged = line == ".TP";
  }

  CHECK(names_in(tags) == table_names());
  CHECK(lines.size() <= 260);
}

TEST_CASE("option names: the completion offers exactly the options of the table", "[unit]") {
  CHECK(names_in(source("scripts/completion/cxxrun.bash")) == table_names());
}

TEST_CASE("option names: short names are in the man page and in the completion", "[unit]") {
  std::string const man = cxxrun::replace_all(source("docs/use/cxxrun.1"), "\\-", "-");
  for (auto const& row : command().rows()) {
    if (*row.short_name != '\0') {
      CHECK(man.find(std::string(".BR ") + row.short_name + " \", \" " + row.name) != std::string::npos);
      CHECK(source("scripts/completion/cxxrun.bash").find(std::string(" ") + row.short_name) != std::string::npos);
    }
  }
}

TEST_CASE("option names: docs/use/torchrun.md says what becomes of every option", "[unit]") {
  Names const documented = names_in(source("docs/use/torchrun.md"));
  for (auto const& refused : command().refused) {
    CHECK(documented.count(refused.name) == 1);
  }
  for (auto const& name : table_names()) {
    CAPTURE(name);
    CHECK((documented.count(name) == 1 || name == "--help"));
  }
}
