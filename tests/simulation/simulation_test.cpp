// Random schedules of whole jobs: docs/design/simulation.md. Quick: the cases of seeds.txt and 10,000 new ones.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <utility>

#include "tests/simulation/job.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/sanitized.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::simulation;  // NOLINT(google-build-using-namespace)

namespace {

std::string replay(std::uint64_t seed) {
  Job job(draw(seed));
  job.world.traced = true;
  auto const broken = job.run();
  return "seed " + std::to_string(seed) + ": " + broken + "\n" + job.describe();
}

constexpr std::uint64_t kSchedules = cxxrun::test::kSanitized ? 100 : 10'000;

void run_all(std::uint64_t first, std::uint64_t count) {
  Coverage coverage;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Job job(draw(seed), &coverage);
    if (!job.run().empty()) {
      FAIL(replay(seed));
    }
  }
  std::cout << coverage;
}

}  // namespace

TEST_CASE("simulation: seeds that have found something once", "[simulation]") {
  std::ifstream file(std::string(CXXRUN_SOURCE_DIR) + "/tests/simulation/seeds.txt");
  REQUIRE(file);
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line.front() == '#') {
      continue;
    }
    auto const seed = std::stoull(line);
    Job job(draw(seed));
    if (!job.run().empty()) {
      FAIL(replay(seed));
    }
    auto whole = draw(seed);  // most of them are older than programs that end before the trouble
    if (std::exchange(whole.ends_after, std::nullopt)) {
      INFO("seed " << seed << ", to the end of its trouble");
      CHECK(Job(std::move(whole)).run().empty());
    }
  }
}

TEST_CASE("simulation: whole jobs under random trouble", "[simulation]") {
  char const* const first = std::getenv("CXXRUN_SIMULATION_FIRST");
  char const* const count = std::getenv("CXXRUN_SIMULATION_COUNT");
  std::uint64_t const begin = first != nullptr ? std::stoull(first) : 1;
  run_all(begin, count != nullptr ? std::stoull(count) : kSchedules);
}

TEST_CASE("simulation: whole jobs whose nodes die", "[simulation]") {
  run_all(kOnlyDeaths, kSchedules / 4);
}

TEST_CASE("simulation: whole jobs whose workers fail again and again", "[simulation]") {
  run_all(kOnlyFailures, kSchedules / 4);
}

TEST_CASE("simulation: whole jobs beside somebody who knows everything but the key", "[simulation]") {
  std::uint64_t calls = 0;
  std::uint64_t notes = 0;
  for (std::uint64_t const first : {std::uint64_t{1}, kOnlyDeaths, kOnlyCuts}) {
    for (std::uint64_t seed = first; seed < first + kSchedules / 20; ++seed) {
      auto schedule = draw(seed);
      schedule.forged = true;
      Job job(std::move(schedule));
      auto const broken = job.run();
      INFO("simulation_run forged replay " << seed << ": " << broken);
      REQUIRE(broken.empty());
      calls += job.forger->calls;
      notes += job.forger->notes;
    }
  }
  CHECK(calls > kSchedules);
  CHECK((cxxrun::test::kSanitized || notes > kSchedules / 20));  // true ones, said again; 15 jobs may have none
}

TEST_CASE("simulation: whole jobs whose links fail for a moment", "[simulation]") {
  run_all(kOnlyCuts, kSchedules / 4);
}
