// Random worlds: collectives, groups and synchronizers in any order, with numbers whose results are known. Every rank
// draws the same world from its seed; CXXRUN_SEED is the first seed, CXXRUN_WORLDS the number of worlds.
#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/src/runtime/client/random_world.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/comm_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

std::uint64_t number_of(char const* variable, std::uint64_t otherwise) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// One to six ranks on one to three hosts, neighbours or not.
std::string nodes_of(std::uint64_t seed) {
  Draws draws(seed);
  auto const ranks = 1 + draws.below(6);
  auto const hosts = 1 + draws.below(3);
  bool const in_order = draws.below(2) == 0;
  std::string nodes;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    nodes += static_cast<char>('a' + (in_order ? rank * hosts / ranks : draws.below(hosts)));
  }
  return nodes;
}

}  // namespace

TEST_CASE("properties: in random worlds every call gives what arithmetic gives") {
  auto const first = number_of("CXXRUN_SEED", 20261125);
  auto const worlds = number_of("CXXRUN_WORLDS", 40);
  std::size_t calls = 0;
  for (auto seed = first; seed < first + worlds; ++seed) {
    auto const nodes = nodes_of(seed);
    ForkedStore const store;
    auto const ends = run_ranks(static_cast<int>(nodes.size()), [&](int rank) {
      RandomWorld world(init(store, rank, nodes, {.op_timeout = kGuard}), seed);
      return std::to_string(world.play(30));
    });
    for (auto const& end : ends) {
      INFO("CXXRUN_SEED=" << seed << " CXXRUN_WORLDS=1, nodes " << nodes << ": " << end.said);
      REQUIRE(end.returned());
      calls += std::stoul(end.said);
    }
  }
  WARN("seeds " << first << " to " << first + worlds - 1 << ", " << calls << " results");
}
