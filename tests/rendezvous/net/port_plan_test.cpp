#include "rendezvous/net/port_plan.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

PortPlan planned(bool agent_store, std::uint16_t master_port, PortRange range = {}, bool elected = false) {
  Terms terms;
  terms.agent_store = agent_store;
  terms.master_port = master_port;
  return plan_ports(terms, range, elected);
}

}  // namespace

TEST_CASE(
    "ports: the store is MASTER_PORT, at a port of the kernel's choice, of the range, or the one that was demanded",
    "[unit]") {
  CHECK(planned(true, 0) == PortPlan{{0}, false, std::nullopt});
  CHECK(planned(true, 0, {4000, 4002}) == PortPlan{{4000, 4001, 4002}, false, std::nullopt});
  CHECK(planned(true, 29500) == PortPlan{{29500}, true, std::nullopt});
  CHECK(planned(true, 29500, {4000, 4002}) == PortPlan{{29500}, true, std::nullopt});
}

TEST_CASE("ports: without the agent's store the port that was demanded is rank 0's, and the store takes another one",
          "[unit]") {
  CHECK(planned(false, 0) == PortPlan{{0}, false, std::uint16_t{0}});
  CHECK(planned(false, 29500) == PortPlan{{0}, false, std::uint16_t{29500}});
  CHECK(planned(false, 29500, {4000, 4001}) == PortPlan{{4000, 4001}, false, std::uint16_t{29500}});
}

TEST_CASE("ports: a coordinator that was elected takes another port where the one that was demanded is taken",
          "[unit]") {
  CHECK(planned(true, 29500, {}, true) == PortPlan{{29500, 0}, false, std::nullopt});
  CHECK(planned(true, 0, {}, true) == planned(true, 0));
  CHECK(planned(false, 29500, {}, true) == planned(false, 29500));
}

TEST_CASE("ports: the last port of all can end a range", "[unit]") {
  CHECK(planned(true, 0, {65535, 65535}) == PortPlan{{65535}, false, std::nullopt});
}
