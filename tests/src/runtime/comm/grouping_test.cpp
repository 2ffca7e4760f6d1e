#include "src/runtime/comm/grouping.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::comm;  // NOLINT(google-build-using-namespace)
using Ranks = std::vector<int>;

TEST_CASE("grouping: equal colors, by key and then by rank; none without a color") {
  std::vector<Wish> const wishes{{0, 5}, {1, 0}, {0, -1}, wish_of(std::nullopt, 0), {0, 5}, {-3, 0}};
  CHECK(members_of(wishes, 0) == Ranks{2, 0, 4});
  CHECK(members_of(wishes, 2) == Ranks{2, 0, 4});
  CHECK(members_of(wishes, 4) == Ranks{2, 0, 4});
  CHECK(members_of(wishes, 1) == Ranks{1});
  CHECK(members_of(wishes, 3).empty());
  CHECK(members_of(wishes, 5).empty());
}
