#include "rendezvous/membership/starting.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

TimePoint at(int ms) {
  return TimePoint{} + Millis{ms};
}

}  // namespace

TEST_CASE("leases: the lease wait ends when the last seat is proven or its time has come", "[unit]") {
  Leases leases;
  leases.outstanding = {{{3, 0}, at(10)}, {{3, 1}, at(30)}, {{2, 1}, at(20)}};
  CHECK(lease_wait(leases, at(0)) == at(30));
  leases.outstanding.erase(Held{3, 1});
  CHECK(lease_wait(leases, at(0)) == at(20));
  CHECK_FALSE(lease_wait(leases, at(20)));
}
