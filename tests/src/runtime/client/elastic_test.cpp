#include "cxxrun/elastic.hpp"

#include <algorithm>
#include <vector>

#include "tests/support/catch.hpp"

using cxxrun::plan_recovery;
using cxxrun::Recovery;
using cxxrun::Standing;

namespace {

Recovery plan(std::vector<Standing> const& ranks) {
  return plan_recovery(ranks);
}
Standing at(std::uint64_t step) {
  return {step, false};
}
constexpr Recovery kLoad{true, true, 0};
constexpr Recovery kNothing{};
Recovery from(int donor) {
  return {false, true, donor};
}

}  // namespace

TEST_CASE("elastic: the rows of docs/design/survival.md") {
  Standing const fresh;
  CHECK(plan({fresh}) == kLoad);
  CHECK(plan({fresh, fresh, fresh}) == kLoad);
  CHECK(plan({at(7), fresh, at(7)}) == from(0));
  CHECK(plan({fresh, at(7), at(7)}) == from(1));
  CHECK(plan({fresh, at(7), at(8)}) == from(2));
  CHECK(plan({at(7), at(8), fresh, at(8)}) == from(1));
  CHECK(plan({at(7), at(8)}) == from(1));
  CHECK(plan({at(7)}) == kNothing);
  CHECK(plan({at(7), at(7), at(7)}) == kNothing);
  CHECK(plan({at(0), at(0)}) == kNothing);
  CHECK(plan({at(7), at(9)}) == kLoad);
  CHECK(plan({fresh, at(9), at(7), at(8)}) == kLoad);
  CHECK(plan({at(UINT64_MAX), at(0)}) == kLoad);
}

TEST_CASE("elastic: a rank without which others have gone on takes their state, however far behind it is") {
  auto const old = [](std::uint64_t step) { return Standing{step, false, 1}; };
  auto const here = [](std::uint64_t step) { return Standing{step, false, 3}; };
  CHECK(plan({old(7), here(90), old(7)}) == from(1));
  CHECK(plan({old(90), here(90)}) == from(1));          // the same step of another world
  CHECK(plan({old(90), here(7), here(8)}) == from(2));  // they had to begin again
  CHECK(plan({old(90), Standing{100, true, 3}}) == from(0));
  CHECK(plan({old(7), here(7), here(9)}) == kLoad);
}

TEST_CASE("elastic: what a fresh rank says of its steps does not count") {
  CHECK(plan({{100, true}, at(7)}) == from(1));
  CHECK(plan({{100, true}, {3, true}}) == kLoad);
}

TEST_CASE("elastic: in every world of up to four ranks all end with one state, and no newer one is given up") {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    int all = 1;
    for (int i = 0; i < ranks; ++i) {
      all *= 5;  // fresh, or 0 to 3 steps
    }
    for (int number = 0; number < all; ++number) {
      std::vector<Standing> world;
      for (int i = 0, rest = number; i < ranks; ++i, rest /= 5) {
        world.push_back(rest % 5 == 4 ? Standing{} : at(static_cast<std::uint64_t>(rest % 5)));
      }
      std::vector<std::uint64_t> steps;
      for (Standing const& rank : world) {
        if (!rank.fresh) {
          steps.push_back(rank.completed);
        }
      }
      std::sort(steps.begin(), steps.end());
      Recovery const recovery = plan(world);
      INFO(ranks << " ranks, number " << number);
      bool const far = steps.empty() || steps.back() - steps.front() > 1;
      CHECK(recovery.load == far);
      if (far) {
        CHECK((recovery.share && recovery.donor == 0));
        continue;
      }
      bool const equal = static_cast<int>(steps.size()) == ranks && steps.front() == steps.back();
      CHECK(recovery.share == !equal);
      Standing const& donor = world.at(static_cast<std::size_t>(recovery.donor));
      CHECK((!recovery.share || (!donor.fresh && donor.completed == steps.back())));
      for (int before = 0; before < recovery.donor; ++before) {
        Standing const& other = world[static_cast<std::size_t>(before)];
        CHECK((other.fresh || other.completed < donor.completed));
      }
    }
  }
}
