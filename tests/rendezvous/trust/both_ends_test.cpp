#include "rendezvous/trust/both_ends.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

BothEnds const kSaid{"10.0.0.2:40001", "10.0.0.1:21894"};

}  // namespace

TEST_CASE("both ends: a connection is direct only where both sides see both ends alike", "[unit]") {
  struct Row {
    char const* what;
    BothEnds seen;
    Way way;
    std::string callers = {};            // --local-addr of the caller
    std::vector<std::string> ours = {};  // those of the called side
    BothEnds said = kSaid;
  };
  auto const row = GENERATE(values<Row>({
      {"the same", kSaid, Way::direct},
      {"the same, and an address of its own was given", kSaid, Way::direct, "10.0.0.2", {"10.0.0.1"}},
      {"a relay's own port", {"10.0.0.2:40002", "10.0.0.1:21894"}, Way::relayed},
      {"a relay on another host", {"10.0.0.9:40001", "10.0.0.1:21894"}, Way::relayed},
      {"a relay with the caller's port, to another port", {"10.0.0.2:40001", "10.0.0.1:21895"}, Way::relayed},
      {"the same, to another address", {"10.0.0.2:40001", "10.0.9.1:21894"}, Way::relayed},
      {"translated, and nobody has said so", {"10.0.9.2:40001", "10.0.0.1:21894"}, Way::relayed},
      {"translated, as the caller has said", {"10.0.9.2:51111", "10.0.0.1:21894"}, Way::translated, "10.0.9.2"},
      {"as another address than it has said", {"10.0.9.3:40001", "10.0.0.1:21894"}, Way::relayed, "10.0.9.2"},
      {"from an address that is said, to another port", {"10.0.0.2:51111", "10.0.0.1:21895"}, Way::relayed, "10.0.0.2"},
      {"a relay with the port of a caller that has said its address",
       {"10.0.0.2:40001", "10.0.0.1:21895"},
       Way::relayed,
       "10.0.0.2"},
      {"from another port of the address that is said",
       {"10.0.0.2:51111", "10.0.0.1:21894"},
       Way::translated,
       "10.0.0.2"},
      {"called by an outer address", {"10.0.0.2:40001", "172.17.0.2:21894"}, Way::translated, "", {"x", "10.0.0.1"}},
      {"the same at another port", {"10.0.0.2:40001", "172.17.0.2:21895"}, Way::relayed, "", {"10.0.0.1"}},
      {"called by an address that is not said", {"10.0.0.2:40001", "172.17.0.2:21894"}, Way::relayed, "", {"10.0.0.3"}},
      {"both translated", {"10.0.9.2:51111", "172.17.0.2:21894"}, Way::translated, "10.0.9.2", {"10.0.0.1"}},
      {"nothing to compare with", {}, Way::direct},
      {"it does not say", kSaid, Way::relayed, "", {""}, {}},
      {"it says no ends", kSaid, Way::relayed, "10.0.0.2", {"10.0.0.1"}, {"10.0.0.2", "[10.0.0.1"}},
      {"IPv6", {"[fd00::2]:1", "[fd00::1]:2"}, Way::direct, "", {}, {"[fd00::2]:1", "[fd00::1]:2"}},
      {"IPv6, to another port", {"[fd00::2]:1", "[fd00::1]:3"}, Way::relayed, "", {}, {"[fd00::2]:1", "[fd00::1]:2"}},
  }));
  INFO(row.what);
  CHECK(way_of(row.said, row.seen, row.callers, row.ours) == row.way);
}

TEST_CASE("both ends: who is refused is told which ends differ", "[unit]") {
  std::string const remedy = "; where addresses are translated give the outer one with --local-addr";
  CHECK(relayed_line(kSaid, {"10.0.0.2:40002", "10.0.0.1:21894"}) ==
        "the connection is relayed: begun at 10.0.0.2:40001, seen to come from 10.0.0.2:40002" + remedy);
  CHECK(relayed_line(kSaid, {"10.0.0.2:40001", "10.0.0.1:21895"}) ==
        "the connection is relayed: begun to 10.0.0.1:21894, seen to arrive at 10.0.0.1:21895" + remedy);
  CHECK(relayed_line(kSaid, {"10.0.0.3:1", "10.0.0.1:2"}) ==
        "the connection is relayed: begun at 10.0.0.2:40001, seen to come from 10.0.0.3:1; begun to 10.0.0.1:21894, "
        "seen to arrive at 10.0.0.1:2" +
            remedy);
}
