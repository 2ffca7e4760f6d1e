#include "rendezvous/membership/seating.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

NodeInfo node(std::string host, std::optional<std::uint32_t> index = {}, bool coordinates = false) {
  NodeInfo info;
  info.host = std::move(host);
  info.node_index = index;
  info.coordinates = coordinates;
  info.reached_at = "127.0.0.1";
  return info;
}

std::vector<AgentId> order(std::vector<Seat> const& seats) {
  std::vector<AgentId> agents;
  for (auto const& seat : seats) {
    agents.push_back(seat.agent);
  }
  return agents;
}

}  // namespace

TEST_CASE("seating: node index orders the first generation, then the coordinator's node, then arrival", "[unit]") {
  CHECK(order(seat_agents({{1, node("b", 1)}, {2, node("a", 0)}}, {}, 2)) == std::vector<AgentId>{2, 1});
  CHECK(order(seat_agents({{1, node("x")}, {2, node("y", {}, true)}, {3, node("z")}}, {}, 3)) ==
        std::vector<AgentId>{2, 1, 3});
}

TEST_CASE("seating: the first generation is ordered by name where no index does, then by workers, then by arrival",
          "[unit]") {
  auto big = node("b");
  big.slots = 4;
  CHECK(order(seat_agents({{1, node("c")}, {2, node("b")}, {3, big}, {4, node("a")}, {5, node("b")}}, {}, 5)) ==
        std::vector<AgentId>{4, 3, 2, 5, 1});
  CHECK(order(seat_agents({{1, node("c")}, {2, node("b")}, {3, node("d", {}, true)}, {4, node("e", 0)}}, {}, 4)) ==
        std::vector<AgentId>{4, 3, 2, 1});
}

TEST_CASE("seating: arrival decides who has a seat in the first generation, and where newcomers sit in later ones",
          "[unit]") {
  CHECK(order(seat_agents({{1, node("c")}, {2, node("b")}, {3, node("a")}}, {}, 2)) == std::vector<AgentId>{2, 1});
  auto const first = seat_agents({{1, node("c")}, {2, node("b")}, {3, node("a")}}, {}, 3);
  REQUIRE(order(first) == std::vector<AgentId>{3, 2, 1});
  CHECK(order(seat_agents({{2, node("b")}, {8, node("z")}, {9, node("y")}}, first, 3)) ==
        std::vector<AgentId>{8, 2, 9});
}

TEST_CASE("seating: survivors keep their ranks, newcomers take the holes, the last ones move up", "[unit]") {
  auto const first = seat_agents({{1, node("a")}, {2, node("b")}, {3, node("c")}}, {}, 3);
  REQUIRE(order(first) == std::vector<AgentId>{1, 2, 3});
  CHECK(order(seat_agents({{1, node("a")}, {3, node("c")}, {9, node("d")}}, first, 3)) ==
        std::vector<AgentId>{1, 9, 3});
  CHECK(order(seat_agents({{2, node("b")}, {3, node("c")}}, first, 3)) == std::vector<AgentId>{3, 2});
}

TEST_CASE("seating: the coordinator's own agent is never a spare", "[unit]") {
  auto const seats = seat_agents({{1, node("a", 0)}, {2, node("b", 1)}, {3, node("c", 2, true)}}, {}, 2);
  CHECK(order(seats) == std::vector<AgentId>{1, 3});
}

TEST_CASE("seating: MASTER_ADDR is what the coordinator's node announces, else how others reached it", "[unit]") {
  auto host = node("a", 0, true);
  auto other = node("b", 1);
  other.reached_at = "10.0.0.1";
  CHECK(master_address(seat_agents({{1, host}, {2, other}}, {}, 2), true) == "10.0.0.1");
  host.calls_from = "127.0.0.1";
  other.calls_from = "10.0.0.2";
  CHECK(standby_address(seat_agents({{1, host}, {2, other}}, {}, 2), 0) == "10.0.0.1");
  CHECK(standby_address(seat_agents({{1, host}, {2, other}}, {}, 2), 1) == "10.0.0.2");
  CHECK(standby_address(seat_agents({{1, host}}, {}, 1), 0) == "127.0.0.1");
  host.announce = "ib0.a";
  CHECK(master_address(seat_agents({{1, host}, {2, other}}, {}, 2), true) == "ib0.a");
  CHECK(master_address(seat_agents({{1, node("a", 0, true)}}, {}, 1), true) == "127.0.0.1");
}

TEST_CASE("seating: members are named in the order of their group ranks, wherever they come from", "[unit]") {
  auto big = node("node2", 1);
  big.slots = 4;
  auto const first = seat_agents({{1, node("node1", 0)}, {2, big}, {3, node("node3", 2)}}, {}, 3);
  Generation generation;
  name_members(first, generation);
  CHECK(generation.hosts == "node[1-3]");
  CHECK(generation.local_sizes == "1,4,1");
  name_members(seat_agents({{2, big}, {3, node("node3", 2)}, {9, node("gpu17.other")}}, first, 3), generation);
  CHECK(generation.hosts == "gpu17.other,node[2-3]");
  CHECK(generation.local_sizes == "1,4,1");
}

TEST_CASE("seating: 10,000 members in order are a short text, lists beyond the bounds are left out", "[unit]") {
  std::vector<Seat> seats(10'000);
  for (std::size_t i = 0; i < seats.size(); ++i) {
    seats[i].node = node("node" + std::to_string(10'001 + i));
    seats[i].node.slots = 8;
  }
  Generation generation;
  name_members(seats, generation);
  CHECK(generation.hosts == "node[10001-20000]");
  CHECK(generation.local_sizes == "8(x10000)");

  for (std::size_t i = 0; i < seats.size(); i += 2) {
    std::swap(seats[i].node.host, seats[i + 1].node.host);
    seats[i].node.slots = 4;
  }
  name_members(seats, generation);
  CHECK(generation.hosts.empty());
  CHECK(generation.local_sizes.empty());
  seats[0].node.host = "a,b";
  name_members({seats[0]}, generation);
  CHECK(generation.hosts.empty());
}

TEST_CASE("seating: with no host among the members, a store of rank 0 is announced where rank 0 is", "[unit]") {
  NodeInfo first = node("a", 0);
  NodeInfo second = node("b", 1);
  first.reached_at = second.reached_at = "10.0.0.9";
  first.calls_from = "10.0.0.1";
  auto const seats = [&] { return seat_agents({{1, first}, {2, second}}, {}, 2); };
  CHECK(master_address(seats(), true) == "10.0.0.9");
  CHECK(master_address(seats(), false) == "10.0.0.1");
  first.calls_from = "127.0.0.1";  // rank 0 is beside the coordinator
  CHECK(master_address(seats(), false) == "10.0.0.9");
  first.announce = "ib0.a";
  CHECK(master_address(seats(), false) == "ib0.a");
}
