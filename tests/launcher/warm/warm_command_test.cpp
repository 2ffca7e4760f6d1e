#include "launcher/warm/warm_command.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using Words = std::vector<std::string>;

namespace {

std::vector<Import> const kDeepspeed = {{"torch", "deepspeed.engine", 3.5},
                                        {"deepspeed.engine", "deepspeed", 4.25},
                                        {"deepspeed", "", 6},
                                        {"numpy", "", 0.5}};

}  // namespace

TEST_CASE("warm_command: Python and a script or a module, with options that change neither", "[unit]") {
  CHECK(*warm_command({"python3", "-u", "train.py", "--lr", "1"}) == WarmCommand{{"python3", "-u"}, 2});
  CHECK(*warm_command({"/opt/env/bin/python3.11", "t.py"}) == WarmCommand{{"/opt/env/bin/python3.11"}, 1});
  CHECK(*warm_command({"python", "-W", "ignore", "-Xdev", "-OO", "-uB", "a/b.py", "-c"}) ==
        WarmCommand{{"python", "-W", "ignore", "-Xdev", "-OO", "-uB"}, 6});
  CHECK(*warm_command({"python3", "-u", "-m", "pkg.train", "--lr", "1"}) == WarmCommand{{"python3", "-u"}, 2});
  CHECK(*warm_command({"python3", "-Xdev", "t.py"}) == WarmCommand{{"python3", "-Xdev"}, 2});
}

TEST_CASE("warm_command: what is no such command is told", "[unit]") {
  auto const said = [](Words const& argv) {
    auto const command = warm_command(argv);
    REQUIRE_FALSE(command);
    return command.error().context;
  };
  CHECK(said({}) == "the workers' command begins with '' and not with Python");
  for (auto const* const name :
       {"conda", "numactl", "apptainer", "./train", "pypy3", "python3-config", "pythonw", "ipython"}) {
    CHECK(said({name, "run", "python", "t.py"}) ==
          "the workers' command begins with '" + std::string(name) + "' and not with Python");
  }
  CHECK(said({"python3", "-um", "t", "t.py"}) == "with -um Python runs no script");
  CHECK(said({"python3", "-uc", "1", "t.py"}) == "with -uc Python runs no script");
  CHECK(said({"python3", "-", "t.py"}) == "with - Python runs no script");
  CHECK(said({"python3", "--version", "t.py"}) == "with --version Python runs no script");
  for (Words const& words : {Words{"python3"},
                             {"python3", "-W"},
                             {"python3", "-m"},
                             {"python3", "folder"},
                             {"python3", "app.pyz", "t.py"}}) {
    CHECK(said(words) == "the workers' command names neither a script that ends in .py nor a module");
  }
}

TEST_CASE("warm_command: the zygote has the same interpreter, and room for the arguments of every worker", "[unit]") {
  Words const argv{"python3", "-u", "train.py", std::string(5000, 'x')};
  auto const words = zygote_command(*warm_command(argv), argv, 77);
  REQUIRE(words.size() == 5);
  CHECK(Words(words.begin(), words.begin() + 3) == Words{"python3", "-u", "-c"});
  CHECK(words[3].find("read(0,77)") != std::string::npos);
  // Before anything could be imported from the working directory.
  CHECK(words[3].starts_with("import sys;'' in sys.path and sys.path.remove('');"));
  CHECK(words[4] == std::string(words[4].size(), ' '));
  CHECK(zygote_command({{"python3"}, 1}, {"python3", "t.py", std::string(200'000, 'x')}, 1).back().size() == 131'071);
  CHECK(words[4].size() > 5000 + std::string("python3 -u train.py").size());
}

TEST_CASE("warm_command: a worker is told everything in lists whose lengths come first", "[unit]") {
  using namespace std::string_literals;
  CHECK(warm_words({"python3", "t.py", "", "a b"}, 1, {0, 12}, {"A=1", "B="}) ==
        "4\0python3\0t.py\0\0a b\0"
        "1\0"
        "1\0"
        "2\0"
        "0\0"
        "12\0"
        "2\0A=1\0B="s);
  CHECK(warm_words({"p"}, 0, {}, {}) ==
        "1\0p\0"
        "1\0"
        "0\0"
        "0\0"
        "0"s);
}

TEST_CASE("imports: lines are read in their order, and those that no worker of ours writes are left out", "[unit]") {
  CHECK(parse_imports(
            "3.500 torch deepspeed.engine\n4.250 deepspeed.engine deepspeed\n6.000 deepspeed -\n0.500 numpy -\n") ==
        kDeepspeed);
  CHECK(parse_imports("x torch -\n1 torch -\n1.000 os;system -\n1.000 torch\n1.000 torch -\033[2J\n-1.000 a -\n\n")
            .empty());
  CHECK(parse_imports("").empty());
  std::string many;
  for (int i = 0; i < 2000; ++i) {
    many += "0.100 module" + std::to_string(i) + " -\n";
  }
  CHECK(parse_imports(many).size() == 500);
}

TEST_CASE("imports: without a module the warm Python has what that imported, and none that imports it", "[unit]") {
  CHECK(modules_of(kDeepspeed) == "torch,deepspeed.engine,deepspeed,numpy");
  CHECK(modules_of(without(kDeepspeed, "deepspeed.engine")) == "torch,numpy");
  CHECK(modules_of(without(kDeepspeed, "torch")) == "numpy");
  CHECK(modules_of(without(kDeepspeed, "nothing")) == "torch,deepspeed.engine,deepspeed,numpy");
  CHECK(without({{"a", "b", 1}, {"b", "a", 1}}, "a").empty());
}

TEST_CASE("imports: what --warm has left out is said when it takes long, the longest first", "[unit]") {
  CHECK(left_out_line(kDeepspeed, false) ==
        "--warm: the workers imported 6.5 s of modules that --warm did not: deepspeed 6.0 s, numpy 0.5 s; name them in "
        "--warm=MODULES, or use --warm=auto");
  CHECK(left_out_line(kDeepspeed, true).ends_with("numpy 0.5 s"));
  CHECK(left_out_line({{"numpy", "", 0.9}, {"a", "numpy", 0.8}}, false).empty());
}
