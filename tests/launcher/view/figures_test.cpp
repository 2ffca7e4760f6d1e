#include "launcher/view/figures.hpp"

#include "tests/launcher/view/table_of.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::view;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

std::vector<std::uint32_t> ranks_of(std::vector<Placed> const& placed) {
  std::vector<std::uint32_t> ranks;
  for (auto const& each : placed) {
    ranks.push_back(each.worker->rank);
  }
  return ranks;
}

}  // namespace

TEST_CASE("figures: the workers of an earlier generation do not count") {
  auto table = table_of(2, 2);
  table.members[1].generation = 1;
  CHECK(ranks_of(workers_now(table)) == std::vector<std::uint32_t>{0, 1});
}

TEST_CASE("figures: goodput is of all the time of the job, and not known of a program that tells of no steps") {
  auto table = accounted(table_of(1, 1));
  CHECK(goodput(table) == 901U);
  CHECK(percent_text(901) == "90.1 %");
  table.job_age *= 10;  // it stands still
  CHECK(goodput(table) == 90U);
  table.job_age = 1h;  // a clock that was set
  CHECK(goodput(table) == 1000U);
  table.job_age = 0ms;
  CHECK_FALSE(goodput(table));
  table = accounted(table_of(1, 1));
  table.steps_known = false;
  CHECK_FALSE(goodput(table));
  CHECK_FALSE(goodput(table_of(1, 1)));
}

TEST_CASE("figures: of many ranks those stand out that are slow, stopped or behind, in this order") {
  auto table = table_of(50, 8);
  auto const worker = [&](std::uint32_t rank) -> Worker& { return table.members[rank / 8].workers[rank % 8]; };
  worker(300).state = 'T';
  worker(200).step -= 3;
  worker(100).begun -= 1;
  worker(350).per_step = 2500ms;
  table.slow.push_back(slow_rank(399));
  CHECK(ranks_of(furthest(table, 1)) == std::vector<std::uint32_t>{399});
  CHECK(ranks_of(furthest(table, 2)) == std::vector<std::uint32_t>{300, 399});
  CHECK(ranks_of(furthest(table, 3)) == std::vector<std::uint32_t>{200, 300, 399});
  CHECK(ranks_of(furthest(table, 5)) == std::vector<std::uint32_t>{100, 200, 300, 350, 399});
  CHECK(furthest(table).size() == kFurthest);
  CHECK(furthest(table, 1000).size() == 400);
}

TEST_CASE("figures: a slow node is slow in each of its ranks, and absurd numbers reach no other") {
  auto table = table_of(2, 2);
  table.slow.push_back(slow_rank(2, 2));
  CHECK_FALSE(is_slow(table, table.members[0].workers[1]));
  CHECK(is_slow(table, table.members[1].workers[0]));
  CHECK(is_slow(table, table.members[1].workers[1]));
  table.slow = {slow_rank(UINT32_MAX, UINT32_MAX)};
  CHECK_FALSE(is_slow(table, table.members[1].workers[1]));
}
