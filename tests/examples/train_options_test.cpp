#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

#include "cxxrun/failure.hpp"
#include "tests/support/catch.hpp"
#include "train/curve.hpp"
#include "train/options.hpp"

using namespace train;  // NOLINT(google-build-using-namespace)

namespace {

cxxrun::Result<Options> parsed(std::vector<char const*> const& arguments) {
  return parse(arguments);
}

std::string complaint(std::vector<char const*> const& arguments) {
  auto const result = parsed(arguments);
  return result ? "" : result.error().message();
}

std::string content(std::string const& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr char const* kHeader = "step,loss,world,restart\n";

}  // namespace

TEST_CASE("train: options are read, with a space or an equals sign", "[unit]") {
  auto const options = parsed({"--steps", "7", "--batch=3", "--lr", "0.5", "--seed=9", "--checkpoint-dir", "a b",
                               "--save-every=2", "--curve", "c=d", "--text=e", "--refuse-damaged"});
  REQUIRE(options);
  CHECK(options->steps == 7);
  CHECK(options->batch == 3);
  CHECK(options->rate == 0.5F);
  CHECK(options->seed == 9);
  CHECK(options->checkpoint_directory == "a b");
  CHECK(options->save_every == 2);
  CHECK(options->curve == "c=d");
  CHECK(options->text == "e");
  CHECK(options->refuse_damaged);
  CHECK_FALSE(options->quiet);
  CHECK_FALSE(options->help);
  CHECK(parsed({"--quiet"})->quiet);
  CHECK(parsed({})->steps == 400);
  CHECK(parsed({"--help"})->help);
}

TEST_CASE("train: what cannot be meant is refused with what would be right", "[unit]") {
  CHECK(complaint({"--step", "7"}) == "unknown argument --step; --help lists the options");
  CHECK(complaint({"file"}) == "unknown argument file; --help lists the options");
  CHECK(complaint({"--steps"}) == "--steps needs a value");
  CHECK(complaint({"--quiet=1"}) == "--quiet takes no value");
  CHECK(complaint({"--steps", "0"}) == "--steps 0: give a whole number from 1");
  CHECK(complaint({"--steps", "7x"}) == "--steps 7x: give a whole number from 1");
  CHECK(complaint({"--batch", "-1"}) == "--batch -1: give a whole number from 1");
  CHECK(complaint({"--seed", ""}) == "--seed : give a whole number");
  CHECK(complaint({"--lr", "nan"}) == "--lr nan: give a positive number");
  CHECK(complaint({"--lr", "0"}) == "--lr 0: give a positive number");
  CHECK(complaint({"--lr", "inf"}) == "--lr inf: give a positive number");
  CHECK(complaint({"--curve", ""}) == "--curve '': give a path");
}

TEST_CASE("train: the help names every option", "[unit]") {
  for (char const* name : {"--steps", "--batch", "--lr", "--seed", "--checkpoint-dir", "--save-every", "--curve",
                           "--text", "--quiet", "--help"}) {
    CHECK(usage().find(std::string("  ") + name + " ") != std::string::npos);
  }
}

TEST_CASE("train: a curve keeps whole lines up to the step that is resumed", "[unit]") {
  std::string const lines = "1,4.5,2,0\n2,4.25,2,0\n";
  CHECK(curve_until("", 9) == kHeader);
  CHECK(curve_until(kHeader + lines + "3,4,2,0\n", 2) == kHeader + lines);
  CHECK(curve_until(kHeader + lines + "3,4", 9) == kHeader + lines);
  CHECK(curve_until(kHeader + lines + "rubbish\n", 9) == kHeader + lines);
}

TEST_CASE("train: steps that are done again are in the curve once", "[unit]") {
  auto const path = (std::filesystem::temp_directory_path() / ("curve." + std::to_string(getpid()))).string();
  {
    Curve curve(path, 0);
    curve.add(1, 4.5, 2, 0);
    curve.add(2, 4.25, 2, 0);
    CHECK(content(path) == std::string(kHeader) + "1,4.5,2,0\n2,4.25,2,0\n");  // at once, not when it is closed
  }
  Curve(path, 1).add(2, 4.25, 2, 1);
  CHECK(content(path) == std::string(kHeader) + "1,4.5,2,0\n2,4.25,2,1\n");
  std::filesystem::remove(path);
}

TEST_CASE("train: a curve that cannot be written is named", "[unit]") {
  CHECK_THROWS_AS(Curve("/nowhere/curve.csv", 0), cxxrun::Failure);
  CHECK_NOTHROW(Curve("", 0).add(1, 1, 1, 0));
}
