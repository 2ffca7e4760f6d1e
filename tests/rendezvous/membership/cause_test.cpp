#include "rendezvous/membership/cause.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

TEST_CASE("cause: who did not time out is named where most others did", "[unit]") {
  State state;
  auto& group = state.group;
  group.seats.resize(2);
  group.seats[0].node.host = "n0";
  group.seats[1].node.host = "n1";
  auto const ended = [](std::uint32_t rank, Role role, bool ours) {
    WorkerExit exit;
    exit.rank = rank;
    exit.status = ExitStatus::signalled(ours ? 15 : 6);
    exit.role = role;
    exit.ours = ours;
    return exit;
  };
  auto const line = [&] { return rule(state, Policy{}, {}).line; };
  group.seats[0].exits = {ended(0, Role::waited, true), ended(1, Role::waited, false)};
  group.seats[1].exits = {ended(2, Role::culprit, true), ended(3, Role::waited, false)};
  group.reports = {Report{1, group.seats[1].exits[1]}};
  CHECK(line() == "rank 2 on n1 did not time out as 3 others did; rank 3 on n1: signal 6 (SIGABRT)");
  group.seats[1].exits[0].role = Role::told_to_end;  // by our stop
  CHECK(line().starts_with("rank 2 on n1 did not time out as 3 others did; "));
  group.seats[0].exits[0].role = Role::culprit;
  CHECK(line() == "rank 3 on n1: signal 6 (SIGABRT)");  // two of four
  group.seats[0].exits[0].role = Role::lost_peer;
  CHECK(line().starts_with("rank 2 on n1 did not time out as 2 others did; "));
  for (std::uint32_t rank = 4; rank < 12; ++rank) {
    group.seats[rank % 2].exits.push_back(ended(rank, rank < 8 ? Role::culprit : Role::waited, true));
  }
  CHECK(line().starts_with("rank 4 on n0, rank 6 on n0, rank 2 on n1 and 2 more did not time out as 6 others did; "));
  for (auto& seat : group.seats) {
    for (auto& exit : seat.exits) {
      exit.role = Role::waited;
    }
  }
  CHECK(line() == "rank 3 on n1: signal 6 (SIGABRT)");
}
