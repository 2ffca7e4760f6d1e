#include "src/base/core/complaints.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

TEST_CASE("complaints: the first of a kind have a line each, the others are counted", "[unit]") {
  Complaints complaints;
  TimePoint const t0{};
  for (std::size_t i = 1; i < Complaints::kInFull; ++i) {
    CHECK(complain(complaints, "a", "line", t0) == "line");
  }
  CHECK(complain(complaints, "a", "line", t0) == "line (more like it are only counted for now)");
  for (int i = 0; i < 292; ++i) {
    CHECK(complain(complaints, "a", "line", t0 + 9999ms).empty());
  }

  CHECK(complain(complaints, "a", "line", t0 + Complaints::kWindow) == "line (and 292 like it before)");
  CHECK(complain(complaints, "a", "line", t0 + Complaints::kWindow) == "line");
}

TEST_CASE("complaints: one kind does not silence another", "[unit]") {
  Complaints complaints;
  for (std::size_t i = 0; i < 2 * Complaints::kInFull; ++i) {
    (void)complain(complaints, "a", "line", TimePoint{});
  }
  CHECK(complain(complaints, "b", "other", TimePoint{}) == "other");
  CHECK(complaints.kinds.size() == 2);
}
