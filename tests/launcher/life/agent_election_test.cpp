#include <csignal>

#include "rendezvous/values/verdict.hpp"
#include "tests/support/agent_driver.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent;           // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent::testing;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<std::uint32_t> dialled(Driver const& agent) {
  std::vector<std::uint32_t> ranks;
  for (auto const& dial : agent.all<Dial>()) {
    ranks.push_back(dial.to.rank);
  }
  return ranks;
}

/// Rank 2 of generation 1, whose coordinator at rank 0 is lost, with the link to rank 1 up.
Driver searching() {
  auto agent = Driver().run();
  agent.lose();
  agent.up(1);
  return agent;
}

}  // namespace

TEST_CASE("agent: a job that cannot go on without its first node does not look for another", "[unit]") {
  auto const how = GENERATE(0, 1, 2);
  Driver agent;
  auto offered = generation(1, 2);
  offered.survives = how != 0;
  offered.coordinator = how == 1 ? "" : "c0";
  offered.hosts = "host[0-2]";
  agent.hear(rdzv::Prepare{offered, 100});
  if (how != 2) {  // else: lost before anything was decided
    agent.hear(rdzv::Start{1, agent.own(), 4000ms});
  }
  agent.lose();
  REQUIRE(agent.all<Dial>().size() == 1);
  CHECK(agent.all<Dial>()[0].to.port == 0);  // at every address and port of the first call
  agent.gone();
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  CHECK(agent.state.life == Life::done);
  CHECK(agent.state.exit_code == kExitCoordinatorLost);
  CHECK(agent.state.last_line.ends_with(how == 0 ? "without its first node, host0" : "without its first node"));
}

TEST_CASE("agent: a first node whose connection alone has ended is joined again", "[unit]") {
  Driver agent;
  auto fixed = generation(1, 2);
  fixed.survives = false;
  agent.hear(rdzv::Prepare{fixed, 100});
  agent.hear(rdzv::Start{1, agent.own(), 4000ms});
  agent.feed(LinkDown{kFirstLink, "reset"});
  CHECK_FALSE(agent.kills());  // they have their lease
  auto const called = agent.all<Dial>().at(0).link;
  SECTION("it answers, and lets this agent in as somebody new") {
    agent.feed(LinkUp{called, "c0"});
    REQUIRE(agent.told<rdzv::FollowerInfo>().size() == 1);
    agent.hear(rdzv::Prepare{generation(2, 3), 10}, called);
    CHECK(agent.told<rdzv::Ack>().empty());  // it is not a member of that generation
    agent.hear(rdzv::Dropped{1, "generation 1 goes on without you"}, called);
    CHECK(agent.kills());
    agent.feed(GroupEnded{1, {killed_exit()}, {}});
    REQUIRE(agent.all<Rejoin>().size() == 1);
    CHECK(agent.all<Rejoin>()[0].to.address.empty());
    CHECK(agent.all<Rejoin>()[0].once);
    CHECK(agent.all<Exit>().empty());
  }
  SECTION("it says how the job has ended") {
    agent.feed(LinkUp{called, "c0"});
    agent.hear(rdzv::Finished{112, ""}, called);
    agent.feed(GroupEnded{1, {killed_exit()}, {}});
    CHECK(agent.all<Exit>() == std::vector<Exit>{{112, ""}});
  }
  SECTION("it does not answer, and is called until it is lost for good") {
    agent.feed(LinkFailed{called, "no answer", false});
    CHECK(agent.all<Exit>().empty());
    agent.pass(200ms);
    auto const again = agent.all<Dial>().at(0).link;
    CHECK(again != called);
    agent.feed(LinkUp{again, "c0"});
    agent.feed(LinkDown{again, "reset"});
    agent.pass(200ms);
    CHECK(agent.all<Dial>().size() == 1);
    agent.pass(1600ms);
    agent.feed(GroupEnded{1, {killed_exit()}, {}});
    CHECK(agent.state.exit_code == kExitCoordinatorLost);
    CHECK(agent.state.life == Life::done);
  }
  SECTION("told to end meanwhile, it ends with its signal's code") {
    agent.feed(EndSignal{SIGTERM});
    agent.feed(GroupEnded{1, {killed_exit()}, {}});
    CHECK(agent.all<Exit>() == std::vector<Exit>{{128 + SIGTERM, ""}});
  }
}

TEST_CASE("agent: who waits for its first generation goes on waiting over a new connection", "[unit]") {
  Driver agent;
  agent.lose();
  auto const called = agent.all<Dial>().at(0).link;
  agent.feed(LinkUp{called, "c0"});
  CHECK(agent.told<rdzv::FollowerInfo>().size() == 1);
  CHECK(agent.state.connected);
  agent.hear(rdzv::Prepare{generation(1, 2), 10}, called);
  CHECK(agent.told<rdzv::Ack>().size() == 1);
}

TEST_CASE("agent: it calls the successors in turn, the lost coordinator at once, and campaigns when it is its turn",
          "[unit]") {
  Driver agent = Driver().run();
  agent.lose();
  CHECK(dialled(agent) == std::vector<std::uint32_t>{1, 0});
  CHECK(agent.all<StopWorkers>().empty());  // they run on under their lease
  agent.pass(199ms);
  CHECK(agent.actions.empty());
  agent.pass(1ms);
  REQUIRE(agent.all<StartCampaign>().size() == 1);
  auto const campaign = agent.all<StartCampaign>()[0].campaign;
  CHECK(campaign.ballot == rdzv::Ballot{2, 2});
  CHECK(campaign.decided == decree(0, 1));
  CHECK(campaign.hosts == std::vector<std::string>{"node0", "node1", "node2", "node3", "node4"});
  CHECK(dialled(agent) == std::vector<std::uint32_t>{2});  // its own vote comes over a connection too
  agent.pass(200ms);
  CHECK(dialled(agent) == std::vector<std::uint32_t>{3});
}

TEST_CASE("agent: it counts the job's start back from when it was told of a generation", "[unit]") {
  Driver agent;
  auto later = generation(1, 2);
  later.decree.history.account.spent = {1s, 2s, 3s, 0s, 0s};
  auto const told = agent.now;
  agent.feed(FromLink{kFirstLink, rdzv::Prepare{later, 1}});
  CHECK(agent.state.follower.job_began == told - 6s);
}

TEST_CASE("agent: it keeps the end of the job that it was told, and campaigns with it", "[unit]") {
  Driver agent;
  auto const told = agent.now;
  agent.feed(FromLink{kFirstLink, rdzv::Prepare{generation(1, 2), 1, rdzv::TimeLeft{90s, true}}});
  rdzv::JobEnd const end{told + 90s, true};
  CHECK(agent.state.follower.job_end == end);
  agent.hear(rdzv::Start{1, agent.own(), 4000ms});
  agent.lose();
  agent.pass(200ms);
  REQUIRE(agent.all<StartCampaign>().size() == 1);
  CHECK(agent.all<StartCampaign>()[0].campaign.job_end == end);
}

TEST_CASE("agent: after a silence nobody's turn comes before the one in front of it can have noticed", "[unit]") {
  auto agent = Driver().run();
  agent.answer(agent.own(), 4000ms, 1);
  agent.pass(5250ms);
  CHECK(dialled(agent) == std::vector<std::uint32_t>{1, 0});
  agent.pass(699ms);
  CHECK(agent.all<StartCampaign>().empty());
  agent.pass(1ms);
  CHECK(agent.all<StartCampaign>().size() == 1);
}

TEST_CASE("agent: the turn of a successor that refuses is passed at once", "[unit]") {
  Driver agent = Driver().run();
  agent.lose();
  agent.feed(LinkFailed{agent.link_to(0), "refused", true});
  CHECK(agent.all<StartCampaign>().empty());
  SECTION("refused") {
    agent.feed(LinkFailed{agent.link_to(1), "refused", true});
    CHECK(agent.all<StartCampaign>().size() == 1);
  }
  SECTION("no answer proves nothing") {
    agent.feed(LinkFailed{agent.link_to(1), "no answer", false});
    CHECK(agent.all<StartCampaign>().empty());
  }
}

TEST_CASE("agent: whom it has called it tells what it knows, and again when that changes", "[unit]") {
  auto agent = searching();
  REQUIRE(agent.told<rdzv::FollowerInfo>().size() == 1);
  auto follower_info = agent.told<rdzv::FollowerInfo>()[0];
  CHECK(follower_info.decided == decree(0, 1));
  CHECK(follower_info.rank == 2U);
  CHECK(follower_info.workers);
  CHECK(follower_info.steps == rdzv::StepsAgo{});
  GroupEnded ended{1, {killed_exit()}, {}};
  ended.steps = {agent.now - 9s, agent.now - 2s};
  agent.feed(ended);
  REQUIRE(agent.told<rdzv::FollowerInfo>().size() == 1);
  CHECK_FALSE(agent.told<rdzv::FollowerInfo>()[0].workers);
  CHECK(agent.told<rdzv::FollowerInfo>()[0].steps ==
        rdzv::StepsAgo{9s, 2s});  // the elected coordinator adds them to the account
}

TEST_CASE("agent: a vote says how long the old coordinator has been silent, and binds", "[unit]") {
  auto agent = searching();
  agent.pass(150ms);
  LinkId const first = agent.link_to(1);
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, first);
  CHECK(agent.told<rdzv::Vote>() == std::vector<rdzv::Vote>{{1, {2, 1}, {2, 1}, std::nullopt, 150ms}});
  CHECK(agent.all<TellBeat>().size() == 1);  // a candidate hears us from now on
  agent.up(0);
  agent.hear(rdzv::Propose{{1, 0}, decree(1, 2)}, agent.link_to(0));
  CHECK(agent.told<rdzv::Accepted>() == std::vector<rdzv::Accepted>{{1, {1, 0}, {2, 1}}});
  agent.hear(rdzv::VoteRequest{2, {9, 1}}, first);
  CHECK(agent.told<rdzv::Vote>().empty());
  agent.hear(rdzv::VoteRequest{1, {1, 1}}, first);
  CHECK(agent.told<rdzv::Vote>().empty());
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "of the deposed"}, agent.link_to(0));
  CHECK(agent.all<StopWorkers>().empty());
}

TEST_CASE("agent: a promise ends its own campaign, and it does not campaign against it", "[unit]") {
  auto agent = searching();
  agent.pass(200ms);
  REQUIRE(agent.all<StartCampaign>().size() == 1);
  agent.hear(rdzv::VoteRequest{1, {3, 1}}, agent.link_to(1));
  CHECK(agent.all<Withdraw>().size() == 1);
  agent.up(2);
  agent.hear(rdzv::VoteRequest{1, {2, 2}}, agent.link_to(2));
  CHECK(agent.told<rdzv::Vote>().at(0).promised == rdzv::Ballot{3, 1});
}

TEST_CASE("agent: whoever had its promise hears that another has it", "[unit]") {
  auto agent = searching();
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, agent.link_to(1));
  agent.up(0);
  agent.hear(rdzv::VoteRequest{1, {3, 0}}, agent.link_to(0));
  auto const said = agent.all<TellLink>();
  REQUIRE(said.size() == 2);
  CHECK(said[0].link == agent.link_to(0));
  CHECK(said[1].link == agent.link_to(1));
  CHECK(std::get<rdzv::Vote>(said[1].message).promised == rdzv::Ballot{3, 0});
  agent.hear(rdzv::VoteRequest{1, {4, 0}}, agent.link_to(0));  // a higher round of the same one
  CHECK(agent.all<TellLink>().size() == 1);
}

TEST_CASE("agent: what it has accepted it says in its vote", "[unit]") {
  auto agent = Driver().run();
  agent.hear(rdzv::Propose{{1, 0}, decree(1, 2)});
  CHECK(agent.told<rdzv::Accepted>() == std::vector<rdzv::Accepted>{{1, {1, 0}, {1, 0}}});
  agent.hear(rdzv::Propose{{1, 3}, decree(1, 2)});  // round 1 is the coordinator's
  CHECK(agent.told<rdzv::Accepted>().empty());
  agent.lose();
  agent.up(1);
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, agent.link_to(1));
  CHECK(agent.told<rdzv::Vote>().at(0).accepted == rdzv::AcceptedDecree{{1, 0}, decree(1, 2)});
}

TEST_CASE("agent: after a promise the coordinator that leads still hears no echo", "[unit]") {
  auto agent = Driver().run();
  agent.answer(agent.own(), 4000ms, 1);
  agent.state.follower.acceptor.promised = {2, 1};
  agent.state.follower.promised_to = "c1";
  agent.pass(500ms);
  CHECK(agent.all<TellBeat>().at(0).beat.echo == 0);
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, ""});
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  agent.hear(rdzv::Prepare{generation(2, 2), 9000});
  CHECK(agent.told<rdzv::Ack>().at(0).echo == 0);
}

TEST_CASE("agent: the candidate's first order makes it the coordinator, and the others are hung up on", "[unit]") {
  auto agent = searching();
  LinkId const leader = agent.link_to(1);
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, leader);
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "coordinator lost"}, leader);
  CHECK(agent.all<HangUp>().size() == 1);  // the lost one's
  CHECK(agent.all<StopWorkers>().size() == 1);
  CHECK(agent.state.follower.main == leader);
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  REQUIRE(agent.all<TellLink>().size() == 1);
  CHECK(agent.all<TellLink>()[0].link == leader);
  CHECK(std::holds_alternative<rdzv::Stopped>(agent.all<TellLink>()[0].message));
  auto next = generation(2, 1);
  next.decree = decree(1, 2, 0);
  agent.hear(rdzv::Prepare{next, 50}, leader);
  CHECK(agent.told<rdzv::Ack>() == std::vector<rdzv::Ack>{{2, 50, agent.own()}});
  agent.hear(rdzv::Propose{{2, 1}, next.decree}, leader);
  CHECK(agent.told<rdzv::Accepted>().size() == 1);
  agent.hear(rdzv::Start{2, agent.own(), 4000ms}, leader);
  CHECK(agent.all<StartWorkers>().size() == 1);
  CHECK(agent.state.follower.acceptor == rdzv::Acceptor{2, {}, std::nullopt});
  agent.feed(LinkDown{leader, "end of file", rdzv::Ended::in_order});
  CHECK(agent.state.follower.search);
}

TEST_CASE("agent: its own coordinator's agent follows it over its own link", "[unit]") {
  Driver agent(1);
  agent.run();
  agent.lose();
  REQUIRE(agent.all<StartCampaign>().size() == 1);  // first in line
  LinkId const own = agent.link_to(1);
  agent.up(1);
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, own);
  CHECK(agent.all<Withdraw>().empty());
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, ""}, own);
  CHECK(agent.all<Withdraw>().empty());
  CHECK(rdzv::follower::leads(agent.state.follower));
  agent.feed(SteppedDown{"its authority has run out", 1});
  CHECK(agent.state.follower.search);
}

TEST_CASE("agent: word of the end of one campaign does not end the next one", "[unit]") {
  for (std::uint64_t const ended : {0U, 1U}) {  // 0: it was sent before this agent campaigned
    Driver agent(1);
    agent.run();
    agent.lose();
    REQUIRE(agent.all<StartCampaign>().size() == 1);
    CHECK(agent.all<StartCampaign>()[0].campaign.campaign_id == 1);
    agent.feed(SteppedDown{"something later is decided", ended});
    agent.pass(200ms);
    agent.up(2);
    agent.hear(rdzv::VoteRequest{1, {2, 2}}, agent.link_to(2));
    CHECK(agent.told<rdzv::Vote>().size() == 1);
    CHECK(agent.all<Withdraw>().size() == 1 - ended);
  }
}

TEST_CASE("agent: no promise within reach: three rounds with higher ballots, then one line and 116", "[unit]") {
  auto agent = Driver().run();
  agent.lose();
  agent.up(1);
  agent.up(0);
  auto const seen = agent.pass(40s);
  std::vector<std::uint32_t> rounds;
  for (auto const& campaign : agent.all<StartCampaign>()) {
    rounds.push_back(campaign.campaign.ballot.round);
  }
  CHECK(rounds == std::vector<std::uint32_t>{2, 3, 4});
  CHECK(agent.kills());
  CHECK(agent.all<Exit>().empty());  // not before they are dead
  CHECK(agent.all<Withdraw>().size() == 1);
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  REQUIRE(agent.all<Exit>().size() == 1);
  CHECK(agent.all<Exit>()[0].code == kExitPartitioned);
  auto const line = agent.all<Exit>()[0].line;
  CHECK(line.find("partitioned: coordinator lost (end of file)") == 0);
  for (auto const* part : {"node1, node0", "5 nodes", "--nnodes MIN:MAX"}) {
    CHECK(line.find(part) != std::string::npos);
  }
  CHECK(line.find("--fence") == std::string::npos);  // five nodes have no two equal halves
  CHECK(line.find('\n') == std::string::npos);
}

TEST_CASE("agent: a fence is advised where half of the nodes may be left, and not where nobody could take over",
          "[unit]") {
  auto four = generation(1, 2);
  four.decree.size = four.group_size = 4;
  auto const line_of = [](rdzv::Generation const& offered) {
    Driver agent;
    agent.hear(rdzv::Prepare{offered, 100});
    agent.hear(rdzv::Start{1, agent.own(), 4000ms});
    agent.lose();
    agent.pass(200s);
    agent.feed(GroupEnded{1, {killed_exit()}, {}});
    REQUIRE(agent.all<Exit>().size() == 1);
    CHECK(agent.all<Exit>()[0].code == kExitPartitioned);
    return agent.all<Exit>()[0].line;
  };
  CHECK(
      line_of(four).ends_with("(--nnodes MIN:MAX), and to let half of the nodes go on give --fence=DIR on a shared "
                              "file system"));
  auto fenced = four;
  fenced.decree.tie = rdzv::Tie::fence;
  CHECK(line_of(fenced).ends_with("(--nnodes MIN:MAX)"));
  four.successors = {successor(0), successor(1)};
  CHECK(line_of(four) ==
        "partitioned: coordinator lost (end of file), and none of the nodes that could take over was "
        "reached: node1; start the job again with the nodes that are left (--nnodes MIN:MAX)");
  four.successors = {successor(0)};
  CHECK(line_of(four) ==
        "partitioned: coordinator lost (end of file), and no other node of generation 1 could take "
        "over; start the job again with the nodes that are left (--nnodes MIN:MAX)");
}

TEST_CASE("agent: no candidate that has its promise makes its search longer than three rounds", "[unit]") {
  auto agent = searching();
  LinkId const first = agent.link_to(1);
  for (std::uint32_t const round : {2U, 3U, 4U}) {
    agent.hear(rdzv::VoteRequest{1, {round, 1}}, first);
    agent.pass_answered(10s, 1);
    REQUIRE(agent.state.life != Life::leaving);
  }
  bool const left = GENERATE(true, false);
  if (left) {  // its own rounds are over: it begins no others
    agent.feed(LinkDown{first, "end of file"});
    CHECK(agent.all<StartCampaign>().size() == 1);
  }
  agent.pass(3s);
  CHECK(agent.kills());
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  REQUIRE(agent.all<Exit>().size() == 1);
  CHECK(agent.all<Exit>()[0].code == kExitPartitioned);
}

TEST_CASE("agent: the death of the candidate that has its promise is the next one's turn", "[unit]") {
  auto agent = searching();
  LinkId const first = agent.link_to(1);
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, first);
  agent.pass(1s);
  CHECK(agent.all<StartCampaign>().empty());
  agent.feed(LinkDown{first, "reset"});
  REQUIRE(agent.all<StartCampaign>().size() == 1);
  CHECK(agent.all<StartCampaign>()[0].campaign.ballot == rdzv::Ballot{3, 2});
}

TEST_CASE("agent: a later decision is adopted, by a member with its new rank and by others without", "[unit]") {
  auto agent = Driver().run();
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, ""});
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  auto next = generation(2, 1);
  next.decree = decree(1, 2, 3);
  agent.hear(rdzv::Prepare{next, 300});
  agent.lose();
  agent.up(1);
  REQUIRE(agent.told<rdzv::FollowerInfo>().size() == 1);
  CHECK(agent.told<rdzv::FollowerInfo>()[0].prepared == 2);
  CHECK(agent.told<rdzv::FollowerInfo>()[0].prepared_rank == 1U);
  bool const member = GENERATE(true, false);
  auto decided = next.decree;
  decided.members += member ? 0 : 1;
  agent.hear(rdzv::Decided{decided, {}}, agent.link_to(1));
  CHECK(agent.state.follower.decided.decree == decided);
  CHECK_FALSE(agent.state.follower.last_contact);
  if (member) {
    CHECK(agent.told<rdzv::FollowerInfo>().at(0).rank == 1U);
    agent.hear(rdzv::VoteRequest{2, {2, 2}}, agent.link_to(1));
    CHECK(agent.told<rdzv::Vote>().at(0).silent_for == 0ms);
  } else {
    CHECK_FALSE(agent.state.follower.decided.rank);
    CHECK(agent.state.follower.search);  // the news came from a candidate
    agent.hear(rdzv::Decided{decided, {successor(1)}}, agent.link_to(1));
    CHECK(agent.state.follower.main == agent.link_to(1));  // the sender leads
  }
}

TEST_CASE("agent: a candidate that says what is decided does not lead before it has this agent's promise", "[unit]") {
  auto agent = searching();
  agent.hear(rdzv::Decided{decree(0, 1), {}}, agent.link_to(1));
  CHECK(agent.state.follower.search);
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, agent.link_to(1));
  agent.hear(rdzv::Decided{decree(0, 1), {}}, agent.link_to(1));
  CHECK_FALSE(agent.state.follower.search);
  CHECK(agent.state.follower.main == agent.link_to(1));
}

TEST_CASE("agent: workers of a generation that is over without them are killed", "[unit]") {
  auto agent = searching();
  agent.hear(rdzv::Decided{decree(1, 2), {}}, agent.link_to(1));
  CHECK(agent.kills());
}

TEST_CASE("agent: dropped, it kills what runs and then joins as somebody new", "[unit]") {
  auto agent = searching();
  LinkId const from = agent.link_to(1);
  agent.hear(rdzv::Dropped{0, "an old one"}, from);
  CHECK(agent.actions.empty());
  agent.hear(rdzv::Dropped{2, "generation 2 goes on without you"}, from);
  CHECK(agent.kills());
  CHECK(agent.all<Rejoin>().empty());
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  REQUIRE(agent.all<Rejoin>().size() == 1);
  CHECK(agent.all<Rejoin>()[0].to == successor(1));
  LinkId const again = agent.all<Rejoin>()[0].link;
  CHECK(again > from);
  CHECK_FALSE(agent.state.joined);
  agent.feed(LinkUp{again, "c1"});
  agent.hear(rdzv::Prepare{generation(3, 4), 10}, again);
  CHECK(agent.all<TellLink>().size() == 1);
  CHECK(agent.state.life == Life::ready);

  auto alone = Driver();
  alone.hear(rdzv::Dropped{2, "why"});
  REQUIRE(alone.all<Rejoin>().size() == 1);
  CHECK(alone.all<Rejoin>()[0].to.address.empty());
  CHECK_FALSE(alone.all<Rejoin>()[0].once);
  alone.feed(LinkFailed{alone.all<Rejoin>()[0].link, "refused", true});
  CHECK(alone.all<Exit>().at(0).code == kExitCoordinatorLost);
}

TEST_CASE("agent: dropped by one that steps down before it can join again, it looks for the next one", "[unit]") {
  auto agent = searching();
  agent.hear(rdzv::Dropped{2, "generation 2 goes on without you"}, agent.link_to(1));
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  auto const again = agent.all<Rejoin>().at(0);
  CHECK(again.once);
  SECTION("it does not coordinate any more") {
    agent.feed(LinkFailed{again.link, "another agent coordinates", false});
  }
  SECTION("it has stepped down since it greeted") {
    agent.feed(LinkUp{again.link, "c1"});
    agent.hear(rdzv::Refused{kExitCoordinatorLost, "another agent coordinates"}, again.link);
  }
  CHECK(agent.state.life == Life::waiting);
  CHECK(dialled(agent) == std::vector<std::uint32_t>{1, 0});
  agent.up(1);
  CHECK_FALSE(agent.told<rdzv::FollowerInfo>().at(0).rank);
  agent.hear(rdzv::Prepare{generation(3, 4), 10}, agent.link_to(1));
  CHECK(agent.state.life == Life::ready);
  agent.hear(rdzv::Start{3, agent.own(), 4000ms}, agent.link_to(1));
  agent.feed(EndSignal{SIGTERM, true});  // the job knows this agent: its workers end first, and the others are told
  CHECK(agent.told<rdzv::Leaving>().size() == 1);
  CHECK(agent.all<StopWorkers>().size() == 1);
  CHECK(agent.all<Exit>().empty());
}

TEST_CASE("agent: dropped, and then the coordinator is lost, too: it looks for the next one without a vote", "[unit]") {
  auto agent = searching();
  agent.hear(rdzv::Dropped{2, "generation 2 goes on without you"}, agent.link_to(1));
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  LinkId const again = agent.all<Rejoin>().at(0).link;
  agent.feed(LinkUp{again, "c1"});
  agent.feed(LinkDown{again, "end of file", rdzv::Ended::in_order});
  CHECK(agent.state.life == Life::waiting);
  CHECK(dialled(agent) == std::vector<std::uint32_t>{1, 0});
  agent.up(1);
  CHECK_FALSE(agent.told<rdzv::FollowerInfo>().at(0).rank);
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, agent.link_to(1));
  CHECK(agent.told<rdzv::Vote>().empty());
}

TEST_CASE("agent: one that was added and has taken no part looks for the job again, whatever ends its connection",
          "[unit]") {
  Driver agent;
  agent.policy.added = true;
  SECTION("while it waits") {
    agent.lose();
  }
  SECTION("when it is ready for a generation that nobody has decided") {
    agent.hear(rdzv::Prepare{generation(1, 2), 100});
    agent.lose();
  }
  SECTION("when its node is being checked, which has to end first") {
    agent.policy.health_check = true;
    agent.hear(rdzv::Prepare{generation(1, 2), 100});
    REQUIRE(agent.state.life == Life::checking);
    agent.lose();
    CHECK(agent.kills());
    CHECK(agent.all<Rejoin>().empty());
    agent.policy.health_check = false;
    agent.feed(GroupEnded{1, {killed_exit()}, {}});
  }
  SECTION("when the coordinator has stepped down since it greeted") {
    agent.hear(rdzv::Refused{kExitCoordinatorLost, "another agent coordinates"});
  }
  REQUIRE(agent.all<Rejoin>().size() == 1);
  auto const again = agent.all<Rejoin>()[0];
  CHECK(again.to.address.empty());
  CHECK_FALSE(again.once);
  CHECK_FALSE(again.why.empty());
  CHECK(agent.all<Exit>().empty());
  agent.feed(LinkUp{again.link, "c1"});
  agent.hear(rdzv::Prepare{generation(3, 4), 10}, again.link);
  CHECK(agent.state.life == Life::ready);
}

TEST_CASE("agent: one that was added ends when its time is over, when it is refused, and with a job that ends",
          "[unit]") {
  Driver agent;
  agent.policy.added = true;
  SECTION("its time is over") {
    agent.lose();
    agent.feed(LinkFailed{agent.all<Rejoin>().at(0).link, "nobody is there", true});
    CHECK(agent.all<Exit>().at(0).code == kExitCoordinatorLost);
  }
  SECTION("it is refused by name") {
    agent.hear(rdzv::Refused{kExitTooFewNodes, "node n was lost 3 times"});
    CHECK(agent.all<Exit>().at(0).code == kExitTooFewNodes);
  }
  SECTION("the job cannot go on without its first node") {
    auto fixed = generation(1, 2);
    fixed.survives = false;
    agent.hear(rdzv::Prepare{fixed, 100});
    agent.hear(rdzv::Start{1, agent.own(), 4000ms});
    agent.lose().gone();
    agent.feed(GroupEnded{1, {killed_exit()}, {}});
    CHECK(agent.all<Exit>().at(0).code == kExitCoordinatorLost);
  }
  CHECK(agent.all<Rejoin>().empty());
}

TEST_CASE("agent: a spare looks for whoever leads, has no vote, and waits while somebody is left", "[unit]") {
  Driver spare;
  std::vector<rdzv::Successor> successors;
  for (std::uint32_t i = 0; i < kNodes; ++i) {
    successors.push_back(successor(i));
  }
  spare.hear(rdzv::Decided{decree(0, 1), successors});
  spare.lose();
  CHECK(dialled(spare) == std::vector<std::uint32_t>{1, 0});
  spare.up(1);
  CHECK_FALSE(spare.told<rdzv::FollowerInfo>().at(0).rank);
  spare.hear(rdzv::VoteRequest{1, {2, 1}}, spare.link_to(1));
  CHECK(spare.told<rdzv::Vote>().empty());
  spare.pass(2min);
  CHECK(spare.all<StartCampaign>().empty());
  CHECK(spare.state.life == Life::waiting);
  SECTION("but not for ever: all that are left may only wait") {
    spare.pass(2min);
    CHECK(spare.state.exit_code == kExitPartitioned);
  }
  SECTION("it is told that the decision stands") {
    spare.hear(rdzv::Decided{decree(0, 1), {}}, spare.link_to(1));
    CHECK(spare.state.follower.main == spare.link_to(1));
  }
  SECTION("it gets a seat") {
    spare.hear(rdzv::Prepare{generation(2, 4), 10}, spare.link_to(1));
    CHECK(spare.told<rdzv::Ack>().size() == 1);
  }
  SECTION("nobody is left: no further round") {
    spare.feed(LinkDown{spare.link_to(1), "reset"});
    spare.pass(12s);
    CHECK(spare.state.exit_code == kExitPartitioned);
  }
}

TEST_CASE("agent: told to end while nobody leads, it stops its workers and leaves with its signal's code", "[unit]") {
  auto agent = searching();
  agent.pass(200ms);
  agent.feed(EndSignal{SIGTERM});
  CHECK(agent.all<StopWorkers>().size() == 1);
  CHECK(agent.all<Withdraw>().size() == 1);
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  CHECK(agent.all<Exit>() == std::vector<Exit>{{128 + SIGTERM, ""}});
}

TEST_CASE("agent: an orderly end and a refused port prove that the coordinator is dead", "[unit]") {
  constexpr auto kFin = rdzv::Ended::in_order;
  struct Row {
    char const* what;
    rdzv::Ended ended;
    bool relayed;
    std::string address;   // of the other agent; "" = its own
    std::string own_host;  // "" = not the host of the other agent
    bool proves;
    rdzv::Tie tie = rdzv::Tie::rank;
  };
  auto const row = GENERATE(values<Row>({{"in order", kFin, false, "", "", true},
                                         {"with a goodbye", rdzv::Ended::goodbye, false, "", "", false},
                                         {"a reset", rdzv::Ended::broken, false, "", "", false},
                                         {"the end of whoever passes the connection on", kFin, true, "", "", false},
                                         {"an address that leads to ourselves", kFin, false, "127.0.0.1", "", false},
                                         {"the same", kFin, false, "::1", "", false},
                                         {"of an agent on our own host", kFin, false, "127.0.0.1", "node0", true},
                                         {"with a fence", kFin, false, "", "", false, rdzv::Tie::fence}}));
  std::uint32_t const size = GENERATE(2U, 5U);
  INFO(row.what << ", " << size << " nodes");
  Driver agent(1);
  agent.policy.pair = size == 2;
  agent.policy.tie = row.tie;
  agent.state.follower.links.at(kFirstLink).relayed = row.relayed;
  auto first = generation(1, 1);
  first.group_size = size;
  first.successors.resize(size);
  first.successors[0].address = row.address.empty() ? first.successors[0].address : row.address;
  first.successors[1].host = row.own_host.empty() ? first.successors[1].host : row.own_host;
  auto const link_to = [&](std::uint32_t rank) {
    auto const& links = agent.state.follower.links;
    return std::find_if(links.begin(), links.end(), [&](auto const& each) { return each.second.to.rank == rank; })
        ->first;
  };
  agent.hear(rdzv::Prepare{first, 100});
  agent.hear(rdzv::Start{1, agent.own(), 4000ms});
  agent.feed(LinkDown{kFirstLink, "gone", row.ended});
  REQUIRE(agent.all<StartCampaign>().size() == 1);
  CHECK(agent.all<StartCampaign>()[0].campaign.pair == (size == 2));
  agent.feed(LinkUp{link_to(1), "its own"});
  REQUIRE(agent.told<rdzv::FollowerInfo>().size() == 1);
  CHECK(agent.told<rdzv::FollowerInfo>()[0].dead.empty());
  CHECK(agent.told<rdzv::FollowerInfo>()[0].begun_for == 0ms);
  agent.feed(LinkFailed{link_to(0), "no answer", false});
  CHECK(agent.told<rdzv::FollowerInfo>().empty());
  agent.pass(200ms);
  auto const again = dialled(agent);
  CHECK(std::count(again.begin(), again.end(), 0U) == 1);
  agent.feed(LinkFailed{link_to(0), "refused", true});
  CHECK(agent.told<rdzv::FollowerInfo>().size() == (row.proves ? 1 : 0));
  if (!row.proves) {
    return;
  }
  CHECK(agent.told<rdzv::FollowerInfo>()[0].dead == std::vector<rdzv::DeadSeat>{{0, 0ms}});
  CHECK(agent.told<rdzv::FollowerInfo>()[0].begun_for == 200ms);
  agent.pass(50ms);
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  REQUIRE(agent.told<rdzv::FollowerInfo>().size() == 1);  // told again, and since when it is known
  CHECK(agent.told<rdzv::FollowerInfo>()[0].dead == std::vector<rdzv::DeadSeat>{{0, 50ms}});
  agent.hear(rdzv::Decided{decree(1, 2, 1), {}}, link_to(1));  // that one has other ranks
  agent.pass(250ms);
  for (auto const& info : agent.told<rdzv::FollowerInfo>()) {
    CHECK(info.dead.empty());
    CHECK_FALSE(info.begun_for);
  }
}
