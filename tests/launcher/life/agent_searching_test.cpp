// Which agents are called, and called again, during a search, and what is remembered when it ends.
#include "rendezvous/values/verdict.hpp"
#include "tests/support/agent_driver.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent;           // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent::testing;  // NOLINT(google-build-using-namespace)

namespace {

/// Rank 2 of generation 1, whose coordinator at rank 0 is lost, with the link to rank 1 up.
Driver searching() {
  auto agent = Driver().run();
  agent.lose();
  agent.up(1);
  return agent;
}

std::size_t calls(Driver const& agent, std::uint32_t rank) {
  auto const dials = agent.all<Dial>();
  return static_cast<std::size_t>(
      std::count_if(dials.begin(), dials.end(), [rank](Dial const& dial) { return dial.to.rank == rank; }));
}

}  // namespace

TEST_CASE("F23: dropped by the coordinator of its generation, an agent goes whatever it has promised", "[unit]") {
  auto agent = searching();
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, agent.link_to(1));
  agent.up(0);
  SECTION("by the coordinator that it had lost") {
    agent.hear(rdzv::Dropped{1, "generation 1 goes on here without you"}, agent.link_to(0));
    CHECK(agent.kills());
    agent.feed(GroupEnded{1, {killed_exit()}, {}});
    CHECK(agent.all<Rejoin>().size() == 1);
  }
  SECTION("by somebody else that has no promise of it") {
    agent.up(3);
    agent.hear(rdzv::Dropped{1, "why"}, agent.link_to(3));
    CHECK_FALSE(agent.kills());
  }
}

TEST_CASE("agent: a successor that refused or hung up is called again in the same round", "[unit]") {
  auto agent = searching();
  auto const how = GENERATE(0, 1);
  if (how == 0) {
    agent.feed(LinkFailed{agent.link_to(0), "refused", true});
  } else {
    agent.up(0);
    agent.feed(LinkDown{agent.link_to(0), "reset"});
  }
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, agent.link_to(1));  // it waits for that candidate
  CHECK(calls(agent, 0) == 0);
  agent.pass(999ms);
  CHECK(calls(agent, 0) == 0);
  agent.pass(1ms);
  CHECK(calls(agent, 0) == 1);
}

TEST_CASE("agent: the port of a dying host is called again after the election, until it refuses", "[unit]") {
  auto agent = searching();
  LinkId const leader = agent.link_to(1);
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, leader);
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "coordinator lost"}, leader);
  REQUIRE_FALSE(agent.state.follower.search);
  agent.pass(0ms);
  REQUIRE(calls(agent, 0) == 1);  // the first call was hung up when the candidate led
  agent.feed(LinkFailed{agent.link_to(0), "it closed the connection", false});
  CHECK(agent.told<rdzv::FollowerInfo>().empty());
  agent.pass(199ms);
  CHECK(calls(agent, 0) == 0);
  agent.pass(1ms);
  REQUIRE(calls(agent, 0) == 1);
  SECTION("and then the coordinator is told") {
    agent.feed(LinkFailed{agent.link_to(0), "refused", true});
    REQUIRE(agent.told<rdzv::FollowerInfo>().size() == 1);
    CHECK(agent.told<rdzv::FollowerInfo>()[0].dead == std::vector<rdzv::DeadSeat>{{0, 0ms}});
    agent.pass(400ms);
    CHECK(calls(agent, 0) == 0);
  }
  SECTION("or answers: it is alive") {
    LinkId const link = agent.link_to(0);
    agent.up(0);
    CHECK(agent.all<HangUp>() == std::vector<HangUp>{{link}});
    agent.pass(400ms);
    CHECK(calls(agent, 0) == 0);
  }
  SECTION("or the next generation is decided") {
    agent.feed(GroupEnded{1, {killed_exit()}, {}});
    agent.hear(rdzv::Prepare{generation(2, 1), 50}, leader);
    agent.hear(rdzv::Start{2, agent.own(), 4000ms}, leader);
    agent.feed(LinkFailed{agent.link_to(0), "no answer", false});
    agent.pass(400ms);
    CHECK(calls(agent, 0) == 0);
  }
}

TEST_CASE("agent: a spare calls the port of a dying host again, a member that cannot take over does not", "[unit]") {
  bool const spare = GENERATE(true, false);
  Driver agent(4);
  if (spare) {
    auto const known = generation(1, 4);
    agent.hear(rdzv::Decided{known.decree, known.successors});
  } else {
    auto known = generation(1, 4);
    known.successors.pop_back();  // more members than may take over
    agent.hear(rdzv::Prepare{known, 100});
    agent.hear(rdzv::Start{1, agent.own(), 4000ms});
  }
  agent.lose();
  agent.pass(200ms);
  agent.up(1);
  LinkId const leader = agent.link_to(1);
  if (!spare) {
    agent.hear(rdzv::VoteRequest{1, {2, 1}}, leader);
  }
  agent.hear(rdzv::Decided{decree(0, 1), generation(1, 4).successors, true}, leader);
  REQUIRE(agent.state.follower.main == leader);
  agent.pass(200ms);
  CHECK(calls(agent, 0) == (spare ? 1 : 0));
}

TEST_CASE("agent: each round it says again what it knows, for a link may be open on one side only", "[unit]") {
  auto agent = searching();
  agent.pass(11s);
  CHECK(agent.state.follower.search->tries == 1);
  std::size_t told = 0;
  for (auto const& tell : agent.all<TellLink>()) {
    told += tell.link == agent.link_to(1) && std::holds_alternative<rdzv::FollowerInfo>(tell.message) ? 1 : 0;
  }
  CHECK(told == 1);
}

TEST_CASE("F26: a candidate whose way to itself ends opens another", "[unit]") {
  auto agent = searching();
  agent.pass(200ms);
  REQUIRE(agent.all<StartCampaign>().size() == 1);
  agent.up(2);
  agent.feed(LinkDown{agent.link_to(2), "end of file"});
  CHECK(calls(agent, 2) == 1);
}

TEST_CASE("F24: what an agent has accepted it can be a member of, whatever it is made ready for later", "[unit]") {
  auto agent = searching();
  auto second = generation(2, 1);
  second.decree = decree(1, 2, 3);
  auto fifth = generation(5, 0);
  fifth.decree = decree(1, 5, 4);
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, agent.link_to(1));
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "why"}, agent.link_to(1));
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  agent.hear(rdzv::Prepare{second, 300}, agent.link_to(1));
  agent.hear(rdzv::Propose{{2, 1}, second.decree}, agent.link_to(1));
  REQUIRE(agent.told<rdzv::Accepted>().size() == 1);
  agent.feed(LinkDown{agent.state.follower.main, "reset"});
  agent.up(3);
  agent.hear(rdzv::VoteRequest{1, {3, 3}}, agent.link_to(3));
  agent.hear(rdzv::Prepare{fifth, 400}, agent.link_to(3));
  REQUIRE(agent.state.follower.prepared);
  REQUIRE(agent.state.follower.prepared->number == 5);
  agent.feed(LinkDown{agent.state.follower.main, "reset"});
  agent.up(1);
  agent.hear(rdzv::Decided{second.decree, {}}, agent.link_to(1));
  CHECK(agent.state.follower.decided.rank == 1U);
  CHECK(agent.state.follower.decided.decree == second.decree);
  agent.hear(rdzv::VoteRequest{2, {2, 0}}, agent.link_to(1));
  CHECK(agent.told<rdzv::Vote>().size() == 1);
}

TEST_CASE("agent: who follows another tells those that call it what is decided; who leads does not", "[unit]") {
  auto const rank = GENERATE(0U, 2U);
  Driver agent(rank);
  agent.hear(rdzv::Prepare{generation(1, rank), 100});
  agent.hear(rdzv::Start{1, agent.own(), 4000ms});
  auto const learned = agent.all<Learned>();
  REQUIRE(learned.size() == (rank == 0 ? 0U : 1U));
  if (rank != 0) {
    CHECK(learned[0].decree.number == 1);
    CHECK(learned[0].successors == generation(1, rank).successors);
  }
}

TEST_CASE("agent: who passes a decision on does not lead by it", "[unit]") {
  auto agent = searching();
  std::vector<rdzv::Successor> const successors{successor(4), successor(1)};
  agent.hear(rdzv::Decided{decree(1, 2), successors, false}, agent.link_to(1));
  CHECK(agent.state.follower.search);
  CHECK(agent.state.follower.main == 0);
  CHECK(agent.state.follower.decided.successors == successors);
  CHECK(calls(agent, 4) == 1);
  CHECK(agent.all<Learned>().size() == 1);  // for the agents that call here
}
