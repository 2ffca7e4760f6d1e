#include "rendezvous/membership/cause.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

TEST_CASE("cause: of victims alone those who had left with 0 are named, in the order in which they left", "[unit]") {
  State state;
  auto& group = state.group;
  group.seats.resize(2);
  group.seats[0].node.host = "n0";
  group.seats[1].node.host = "n1";
  auto const ended = [](std::uint32_t rank, int code, std::int64_t at, Role role = Role::culprit) {
    WorkerExit exit;
    exit.rank = rank;
    exit.status = ExitStatus::exited(code);
    exit.role = role;
    exit.wall_ms = at;
    return exit;
  };
  auto const line = [&] { return rule(state, Policy{}, {}).line; };
  auto const left = [&] { return make_verdict(state, Policy{}, End::worker_failed, 1, "").left; };
  group.seats[0].exits = {ended(0, 0, 30), ended(1, 1, 50, Role::lost_peer)};
  group.seats[1].exits = {ended(2, 0, 20), ended(3, 1, 60, Role::waited)};
  group.reports = {Report{0, group.seats[0].exits[1]}};
  CHECK(line() == "rank 2 on n1, rank 0 on n0 had left with exit code 0; rank 3 on n1: exit code 1");
  CHECK(left() == std::vector<Leaver>{{2, "n1", 20}, {0, "n0", 30}});
  group.seats[0].exits[0].ours = true;  // asked to end
  CHECK(left() == std::vector<Leaver>{{2, "n1", 20}});
  for (std::uint32_t rank = 4; rank < 7; ++rank) {
    group.seats[0].exits.push_back(ended(rank, 0, rank));
  }
  CHECK(line().starts_with("rank 4 on n0, rank 5 on n0, rank 6 on n0 and 1 more had left with exit code 0; "));
  group.seats[1].exits[1].role = Role::culprit;  // a failure of its own needs no leaver to explain it
  CHECK(line() == "rank 3 on n1: exit code 1");
  CHECK(left().empty());
}

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

TEST_CASE("cause: who had to be killed after the stop is told one by one, and counted without where it stood",
          "[unit]") {
  State state;
  auto& group = state.group;
  group.seats.resize(2);
  group.seats[0].node.host = "n0";
  group.seats[1].node.host = "n1";
  auto const stopped = [](std::uint32_t rank, int signal, std::string cause) {
    WorkerExit exit;
    exit.rank = rank;
    exit.status = ExitStatus::signalled(signal);
    exit.ours = true;
    exit.cause = std::move(cause);
    return exit;
  };
  std::string const late = "had not ended 30 s after SIGTERM";
  group.seats[0].exits = {stopped(0, SIGTERM, ""), stopped(1, SIGKILL, late + "; it stood at a.py:7 in f")};
  group.seats[1].exits = {stopped(2, SIGKILL, ""), stopped(3, SIGKILL, late)};
  auto const verdict = make_verdict(state, Policy{}, End::stopped, 143, "");
  REQUIRE(verdict.killed.size() == 2);
  CHECK(verdict.killed[0] == rendezvous::Failure{"n0", 0, group.seats[0].exits[1]});
  CHECK(verdict.killed[1] == rendezvous::Failure{"n1", 1, group.seats[1].exits[1]});
  CHECK(verdict.stopped.at("SIGKILL by cxxrun: " + late) == 2);
}
