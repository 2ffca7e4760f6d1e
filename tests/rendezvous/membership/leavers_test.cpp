#include "rendezvous/membership/leavers.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

LeaversState with(LeaversState state, std::uint32_t first, std::uint32_t count, std::string const& host = "n0") {
  note_leavers(state, first, count, host, TimePoint{1s}, 2s);
  return state;
}

std::string line(LeaversState state, std::uint32_t world) {
  return tell_leavers(state, world);
}

}  // namespace

TEST_CASE("leavers: a few are named with their hosts, many by their ranks, or only counted", "[unit]") {
  CHECK(line(with({}, 0, 1), 4) == "rank 0 on n0 has ended with exit code 0, and 3 others go on");
  CHECK(line(with(with({}, 0, 1), 3, 1, "n1"), 3 + 1 + 1) ==
        "rank 0 on n0, rank 3 on n1 have ended with exit code 0, and 3 others go on");
  CHECK(line(with({}, 0, 7), 8) == "ranks 0-6 have ended with exit code 0, and 1 other goes on");
  LeaversState odd;
  for (std::uint32_t rank = 1; rank < 100; rank += 2) {
    odd = with(std::move(odd), rank, 1);
  }
  CHECK(line(odd, 100) == "50 ranks have ended with exit code 0, and 50 others go on");
}

TEST_CASE("leavers: whose whole node has ended is counted once", "[unit]") {
  auto const all = with(with(with({}, 5, 1), 7, 1), 4, 4);
  CHECK(line(all, 16) == "ranks 4-7 have ended with exit code 0, and 12 others go on");
  CHECK(line(with(with({}, 3, 1), 4, 4), 16).starts_with("ranks 3-7 "));
}

TEST_CASE("leavers: a further line needs twice as many, and none comes when nobody goes on", "[unit]") {
  auto state = with({}, 0, 2);
  CHECK_FALSE(tell_leavers(state, 8).empty());
  CHECK_FALSE(state.due);
  state = with(std::move(state), 2, 1);
  CHECK(tell_leavers(state, 8).empty());
  state = with(std::move(state), 3, 1);
  CHECK(tell_leavers(state, 8).starts_with("ranks 0-3 "));
  CHECK(line(with(std::move(state), 4, 4), 8).empty());
  CHECK(line({}, 8).empty());
}

TEST_CASE("leavers: the line is due when the first of them has been gone for long enough", "[unit]") {
  auto state = with({}, 0, 1);
  CHECK(state.due == TimePoint{3s});
  note_leavers(state, 1, 1, "n0", TimePoint{2s}, 5s);
  CHECK(state.due == TimePoint{3s});
}
