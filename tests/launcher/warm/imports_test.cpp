#include "launcher/warm/imports.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test

namespace {

std::vector<Import> const kDeepspeed = {{"torch", "deepspeed.engine", 3.5},
                                        {"deepspeed.engine", "deepspeed", 4.25},
                                        {"deepspeed", "", 6},
                                        {"numpy", "", 0.5}};

}  // namespace

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
