#include <algorithm>

#include "launcher/options/parse_options.hpp"
#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using Words = std::vector<std::string>;

namespace {

Options cxxrun_options;
StoreOptions store_options;
RendezvousOptions rendezvous_options;

std::vector<Command> all_commands() {
  return {cxxrun_command(cxxrun_options), store_command(store_options), rendezvous_command(rendezvous_options)};
}

StoreOptions store(Words const& arguments) {
  StoreOptions options;
  CHECK_FALSE(parse(store_command(options), arguments).has_value());
  return options;
}

RendezvousOptions rendezvous(Words const& arguments) {
  RendezvousOptions options;
  CHECK_FALSE(parse(rendezvous_command(options), arguments).has_value());
  return options;
}

/// The line of a usage error, without the program's name and the end of line.
std::string mistake(Command const& command, Words const& arguments) {
  auto const end = parse(command, arguments);
  REQUIRE(end.has_value());
  CHECK(end->code == 100);
  std::string const start = std::string(command.name) + ": ";
  REQUIRE(end->text.starts_with(start));
  REQUIRE(end->text.find('\n') == end->text.size() - 1);
  return end->text.substr(start.size(), end->text.size() - start.size() - 1);
}

std::string store_mistake(Words const& arguments) {
  return mistake(store_command(store_options), arguments);
}

std::string rendezvous_mistake(Words const& arguments) {
  return mistake(rendezvous_command(rendezvous_options), arguments);
}

}  // namespace

TEST_CASE("server_options: cxxrun-store needs a port", "[unit]") {
  CHECK(store({"--port", "0"}).port == 0);
  CHECK_FALSE(store({"--port=7"}).loopback);
  CHECK(store({"--port", "7", "--loopback"}).loopback);
  CHECK(store_mistake({}) == "--port is missing; --port 0 lets the kernel choose");
  CHECK(store_mistake({"--port", "x"}) == "--port x: a number from 0 to 65535 is expected");
  CHECK(store_mistake({"--port", "-1"}) == "--port -1: a number from 0 to 65535 is expected");
}

TEST_CASE("server_options: cxxrun-rendezvous needs nothing", "[unit]") {
  auto const defaults = rendezvous({});
  CHECK_FALSE(defaults.port.has_value());
  CHECK(defaults.range == cxxrun::PortRange{});
  CHECK_FALSE(defaults.background);
  CHECK(defaults.log_dir.empty());
  CHECK(defaults.log_level == "info");

  auto const given = rendezvous(
      {"--port=7", "--port_range", "20-30", "--rdzv-id", "r", "--background", "--log_level=warn", "--log-dir", "d"});
  CHECK(given.port == 7);
  CHECK(given.range == cxxrun::PortRange{20, 30});
  CHECK(given.id == "r");
  CHECK(given.background);
  CHECK(given.log_dir == "d");
  CHECK(given.log_level == "warn");
}

TEST_CASE("server_options: a range of ports is FIRST-LAST or one port", "[unit]") {
  CHECK(rendezvous({"--port-range", "20"}).range == cxxrun::PortRange{20, 20});
  for (char const* const bad : {"", "0-5", "30-20", "20-", "-20", "20-70000", "a-b"}) {
    CHECK(rendezvous_mistake({"--port-range", bad}) ==
          std::string("--port-range ") + bad + ": FIRST-LAST is expected, for example 20000-20100");
  }
}

TEST_CASE("server_options: mistakes are named as in cxxrun", "[unit]") {
  CHECK(rendezvous_mistake({"--prot-range", "1"}) == "unknown option --prot-range; did you mean --port-range?");
  CHECK(rendezvous_mistake({"--xyzzy"}) == "unknown option --xyzzy; cxxrun-rendezvous --help lists all");
  CHECK(rendezvous_mistake({"--rdzv_id"}) == "--rdzv-id needs a value: --rdzv-id ID");
  CHECK(rendezvous_mistake({"--rdzv-id", "--loopback"}) ==
        "--rdzv-id needs a value: --rdzv-id ID ('--loopback' follows)");
  CHECK(rendezvous_mistake({"--rdzv-id", "--xyzzy"}) == "--rdzv-id needs a value: --rdzv-id ID ('--xyzzy' follows)");
  CHECK(rendezvous_mistake({"--rdzv-id="}) == "--rdzv-id : a value is expected");
  CHECK(rendezvous_mistake({"--log-level", "all"}) == "--log-level all: debug, info, warn or error is expected");
  CHECK(rendezvous_mistake({"--loopback=1"}) == "--loopback takes no value");
  CHECK(store_mistake({"--port", "0", "x", "--help"}) ==
        "unexpected argument x; cxxrun-store --help lists all options");
  CHECK(store_mistake({"--port"}) == "--port needs a value: --port PORT");
}

TEST_CASE("option_table: every program has --help and --version, and they win over bad values", "[unit]") {
  for (auto const& command : all_commands()) {
    CAPTURE(command.name);
    auto const help = parse(command, {"-h"});
    REQUIRE(help.has_value());
    CHECK(help->code == 0);
    CHECK(help == parse(command, {"--help", "--version"}));
    CHECK(help->text.starts_with(std::string("usage: ") + command.name + " "));
    auto const lines = cxxrun::split(help->text, '\n');
    for (auto const& line : lines) {
      CHECK(line.size() <= 100);
    }
    for (auto const& row : command.rows()) {
      CAPTURE(row.name);
      CHECK(std::count_if(lines.begin(), lines.end(), [&](std::string const& line) {
              return line.find(std::string(row.name) + (*row.value_name == '[' ? "[" : " ")) == 2 ||
                     line.find(std::string(row.name) + " ") == 6;
            }) == 1);
    }
    CHECK(parse(command, {"--version"})->text.starts_with(std::string(command.name) + " 0."));
  }
}

TEST_CASE("option_table: the words in an option's value name are its values", "[unit]") {
  int choices = 0;
  for (auto const& command : all_commands()) {
    for (auto const& row : command.rows()) {
      std::string const value_name = row.value_name;
      if (value_name.find('|') == std::string::npos || cxxrun::lower(value_name) != value_name) {
        continue;
      }
      CAPTURE(row.name);
      ++choices;
      for (auto const& word : cxxrun::split(value_name, '|')) {
        CHECK(row.apply(word, row).has_value());
      }
      CHECK(row.apply("nonsense", row).error().context.ends_with(" is expected"));
    }
  }
  CHECK(choices == 19);
}

TEST_CASE("option_table: no argument list of a server escapes as an exception", "[unit]") {
  Words const pieces = {"", "-", "--", "---", "--=", "--port=", "=", "-h3", "--port", "\x01", "-\n"};
  for (auto const& command : all_commands()) {
    for (auto const& a : pieces) {
      for (auto const& b : pieces) {
        auto const end = parse(command, {a, b});
        CHECK((!end || end->code == 100 || end->code == 0));
      }
    }
  }
}
