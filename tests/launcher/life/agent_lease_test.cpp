#include <csignal>

#include "rendezvous/values/verdict.hpp"
#include "tests/support/agent_driver.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent;           // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent::testing;  // NOLINT(google-build-using-namespace)

TEST_CASE("agent: it beats from the first moment on, and says what it heard last", "[unit]") {
  Driver agent;
  REQUIRE(agent.all<TellBeat>().size() == 1);
  CHECK(agent.all<TellBeat>()[0] == TellBeat{kFirstLink, rdzv::Beat{agent.own(), 0, 0}});
  agent.answer(agent.own(), 0ms, 0);
  agent.pass(500ms);
  REQUIRE(agent.all<TellBeat>().size() == 1);
  CHECK(agent.all<TellBeat>()[0].beat == rdzv::Beat{agent.own(), 1001, 0});
  agent.hear(rdzv::Prepare{generation(1, 2), 9000});
  CHECK(agent.told<rdzv::Ack>() == std::vector<rdzv::Ack>{{1, 9000, agent.own()}});
  agent.pass(500ms);
  CHECK(agent.all<TellBeat>().at(0).beat == rdzv::Beat{agent.own(), 9000, 1});
}

TEST_CASE("agent: workers start under a lease that counts from its own send time", "[unit]") {
  Driver agent;
  agent.hear(rdzv::Prepare{generation(1, 2), 100});
  auto const sent = agent.now;
  agent.now += 300ms;
  agent.hear(rdzv::Start{1, rdzv::own_time(sent), 4000ms});
  REQUIRE(agent.all<HoldLease>() == std::vector<HoldLease>{{sent + 4s}});
  CHECK(std::holds_alternative<rdzv::Learned>(agent.actions.at(0)));
  CHECK(std::holds_alternative<HoldLease>(agent.actions.at(1)));  // before anything runs
  CHECK(agent.all<StartWorkers>().size() == 1);
  agent.now += 200ms;
  agent.answer(agent.own() - 100'000, 3500ms, 1);  // less than it has
  CHECK(agent.all<HoldLease>().empty());
  agent.answer(agent.own() - 100'000, 4000ms, 1);
  CHECK(agent.all<HoldLease>() == std::vector<HoldLease>{{agent.now + 3900ms}});
  agent.answer(agent.own() + 1, 4000ms, 1);  // nothing that we have sent
  agent.answer(agent.own(), 4000ms, 2);      // for another generation
  CHECK(agent.state.lease == agent.now + 3900ms);
}

TEST_CASE("agent: a lease that is answered for never ends", "[unit]") {
  auto agent = Driver().run();
  agent.pass_answered(60s, 1);
  CHECK(agent.state.life == Life::running);
  CHECK(agent.state.lease >= agent.now + 3s);
}

TEST_CASE("agent: at the end of the lease the workers are frozen until the coordinator answers", "[unit]") {
  auto agent = Driver().run();
  TimePoint const end = agent.now + 4s;
  agent.pass(3999ms);
  CHECK(agent.all<Freeze>().empty());
  agent.pass(1ms);
  CHECK(agent.all<Freeze>().size() == 1);
  CHECK_FALSE(agent.kills());
  CHECK(agent.all<HoldLease>().empty());                     // the parent keeps its deadline to freeze
  agent.answer(rdzv::own_time(end) - 3'900'000, 3800ms, 1);  // over already
  agent.answer(agent.own(), 4000ms, 2);                      // for another generation
  CHECK(agent.all<Thaw>().empty());
  agent.now += 600ms;
  agent.answer(agent.own() - 100'000, 4000ms, 1);
  REQUIRE(agent.actions.size() >= 2);  // the lease comes before the thaw: the parent watches it
  CHECK(agent.actions[0] == Action{HoldLease{agent.now + 3900ms}});
  CHECK(agent.actions[1] == Action{Thaw{}});
  CHECK(agent.state.life == Life::running);
  agent.pass(3900ms);
  CHECK(agent.all<Freeze>().size() == 1);
}

TEST_CASE("agent: an order to end that meets frozen workers never wakes them", "[unit]") {
  auto agent = Driver().run();
  agent.pass(4s);
  SECTION("stop") {
    agent.hear(rdzv::Stop{1, rdzv::StopKind::user, "why"});
  }
  SECTION("signal") {
    agent.feed(EndSignal{SIGTERM});
  }
  SECTION("refused") {
    agent.hear(rdzv::Refused{112, "why"});
  }
  SECTION("a later generation") {
    agent.hear(rdzv::Prepare{generation(2, 2), 100});
  }
  REQUIRE(agent.all<StopWorkers>().size() == 1);
  CHECK(agent.all<StopWorkers>()[0].order.signal == SIGKILL);
  CHECK(agent.kills());
  CHECK(agent.all<Thaw>().empty());
}

TEST_CASE("agent: frozen workers are killed after T, and the exits are kept", "[unit]") {
  auto agent = Driver().run();
  agent.pass(4s + 4999ms);
  CHECK_FALSE(agent.kills());
  agent.pass(1ms);
  CHECK(agent.kills());
  CHECK(agent.state.life == Life::fenced);
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  CHECK(agent.told<rdzv::WorkerFailed>().size() == 1);  // else the coordinator would wait
  CHECK(agent.all<HoldLease>() == std::vector<HoldLease>{{std::nullopt}});
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "why"});
  REQUIRE(agent.told<rdzv::Stopped>().size() == 1);
  CHECK(agent.told<rdzv::Stopped>()[0].exits == std::vector{killed_exit()});
  CHECK(agent.state.life == Life::waiting);
}

TEST_CASE("agent: suspended while its workers are frozen, it gives the coordinator the time again", "[unit]") {
  auto agent = Driver().run();
  agent.pass(4s);
  agent.now += 10min;
  agent.feed(Tick{});
  CHECK_FALSE(agent.kills());
  agent.answer(agent.own(), 4000ms, 1);
  CHECK(agent.all<Thaw>().size() == 1);
}

TEST_CASE("agent: a beat that stays unanswered for h is followed by five in each h, until one is answered", "[unit]") {
  auto agent = Driver().run();
  agent.pass_answered(2s, 1);
  auto const beats = [&](Millis duration) {
    agent.pass(duration);
    return agent.all<TellBeat>().size();
  };
  CHECK(beats(500ms) == 1);  // only the beat that stays unanswered
  CHECK(beats(500ms) == 5);
  CHECK(beats(1000ms) == 10);
  agent.answer(agent.own(), 4000ms, 1);
  CHECK(beats(500ms) == 1);
  agent.answer(agent.own(), 4000ms, 1);
  CHECK(beats(500ms) == 1);
}

TEST_CASE("agent: a grace does not outlive the lease", "[unit]") {
  auto agent = Driver().run();
  agent.hear(rdzv::Stop{1, rdzv::StopKind::user, "why"});
  CHECK_FALSE(agent.kills());
  agent.pass(4s);
  CHECK(agent.kills());
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  CHECK(agent.told<rdzv::Stopped>().size() == 1);
}

TEST_CASE("agent: a start that comes later than its lease waits for the next one", "[unit]") {
  Driver agent;
  agent.hear(rdzv::Prepare{generation(1, 2), 100});
  auto const sent = agent.own();
  agent.pass_answered(5s, 0);
  agent.hear(rdzv::Start{1, sent, 4000ms});
  CHECK(agent.all<StartWorkers>().empty());
  agent.answer(agent.own(), 4000ms, 1);
  CHECK(agent.all<StartWorkers>().size() == 1);
  CHECK(agent.state.life == Life::running);
}

TEST_CASE("agent: without leases nothing of them is heard", "[unit]") {
  bool const heartbeats = GENERATE(true, false);
  Driver agent;
  agent.policy.lease = heartbeats ? agent.policy.lease : rdzv::follower::kNoLeases;
  agent.policy.tie = rdzv::Tie::none;
  agent.run();
  CHECK(agent.all<HoldLease>().empty());
  CHECK(agent.all<WriteDeathNotice>().empty());
  agent.pass_answered(60s, 1);
  CHECK(agent.state.life == Life::running);
}

TEST_CASE("agent: suspended for longer than the lease, workers are frozen until the coordinator answers", "[unit]") {
  auto agent = Driver().run();
  agent.now += 10min;
  agent.feed(Tick{});
  CHECK(agent.all<Freeze>().size() == 1);
  CHECK_FALSE(agent.kills());
  CHECK(agent.all<HoldLease>().empty());
  CHECK(agent.all<TellBeat>().size() == 1);
  agent.answer(agent.own(), 0ms, 1);  // the coordinator has no authority left
  CHECK(agent.all<Thaw>().empty());
  agent.pass(100ms);
  CHECK(agent.all<TellBeat>().size() == 1);
  agent.answer(agent.own(), 4000ms, 1);
  CHECK(agent.all<Thaw>().size() == 1);
  CHECK(agent.all<HoldLease>() == std::vector<HoldLease>{{agent.now + 4s}});
  CHECK(agent.state.life == Life::running);
}

TEST_CASE("agent: what comes first after a suspension is looked at after the lease", "[unit]") {
  auto agent = Driver().run();
  auto const before = agent.own();
  agent.now += 10min;
  agent.answer(before, 4000ms, 1);  // an old answer that was waiting in the socket
  CHECK(agent.all<Freeze>().size() == 1);
  CHECK(agent.all<Thaw>().empty());
}

TEST_CASE("agent: frozen workers are killed when no answer comes, and by everything that ends them", "[unit]") {
  auto agent = Driver().run();
  agent.now += 10min;
  agent.feed(Tick{});
  SECTION("no answer") {
    agent.pass(4999ms);
    CHECK_FALSE(agent.kills());
    agent.pass(1ms);
  }
  SECTION("stop") {
    agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "why"});
  }
  SECTION("dropped") {
    agent.hear(rdzv::Dropped{2, "given up"});
  }
  SECTION("finished") {
    agent.hear(rdzv::Finished{0, ""});
  }
  SECTION("signal") {
    agent.feed(EndSignal{SIGTERM});
  }
  SECTION("coordinator lost") {
    agent.lose();
  }
  CHECK(agent.kills());
  CHECK_FALSE(agent.state.frozen);
}

TEST_CASE("agent: workers whose coordinator is lost are killed with their lease, not frozen", "[unit]") {
  auto agent = Driver().run();
  agent.lose();
  REQUIRE(agent.state.follower.search);
  agent.pass(4s);
  CHECK(agent.all<Freeze>().empty());
  CHECK(agent.kills());
}

TEST_CASE("agent: silence of the coordinator is judged after T + h/2, but not by one who was suspended", "[unit]") {
  auto agent = Driver().run();
  agent.answer(agent.own(), 4000ms, 1);
  SECTION("silent") {
    agent.pass(5249ms);
    CHECK_FALSE(agent.state.follower.search);
    agent.pass(1ms);
    CHECK(agent.state.follower.search);
  }
  SECTION("suspended") {
    agent.now += 1h;
    agent.feed(Tick{});
    CHECK_FALSE(agent.state.follower.search);
  }
}

TEST_CASE("agent: a coordinator that never answers is judged too, only later", "[unit]") {
  Driver agent;
  agent.pass(19s);
  CHECK(agent.state.life == Life::waiting);
  agent.pass(1250ms);
  REQUIRE(agent.state.follower.recall);
  agent.pass(2s);
  CHECK(agent.state.exit_code == kExitCoordinatorLost);
}

TEST_CASE("agent: workers that the parent killed before their agent noticed have not succeeded", "[unit]") {
  auto agent = Driver().run();
  agent.now += 10s;
  auto killed = killed_exit();
  killed.ours = true;
  agent.feed(Tick{});
  REQUIRE(agent.all<Freeze>().size() == 1);
  agent.feed(GroupEnded{1, {killed}, {}});
  CHECK(agent.told<rdzv::WorkerFailed>().size() == 1);
}

TEST_CASE("agent: its will names the coordinator first, outlives its workers, and is withdrawn when it leaves",
          "[unit]") {
  auto agent = Driver().run();
  REQUIRE(agent.all<WriteDeathNotice>().size() == 1);
  auto const death_notice = agent.all<WriteDeathNotice>()[0];
  CHECK(death_notice.gone == rdzv::Gone{1, 2});
  REQUIRE(death_notice.recipients.size() == kNodes);
  CHECK(death_notice.recipients[0] == successor(0));
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "why"});
  CHECK(agent.all<WriteDeathNotice>().empty());
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  CHECK(agent.all<WriteDeathNotice>().empty());  // the next coordinator may not know that they have stopped
  agent.feed(EndSignal{15});
  CHECK(agent.all<WriteDeathNotice>() == std::vector<WriteDeathNotice>{WriteDeathNotice{}});

  Driver outside;
  auto elsewhere = generation(1, 2);
  elsewhere.coordinator.clear();
  outside.hear(rdzv::Prepare{elsewhere, 100});
  outside.hear(rdzv::Start{1, outside.own(), 4000ms});
  REQUIRE(outside.all<WriteDeathNotice>().size() == 1);
  CHECK(outside.all<WriteDeathNotice>()[0].recipients.at(0).port == 0);  // where it was called
}

TEST_CASE("agent: told to end, it stays to vote as long as the coordinator answers, half a minute at most", "[unit]") {
  Driver agent;
  agent.run();
  agent.feed(EndSignal{15});
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  REQUIRE(agent.state.life == Life::farewell);
  auto const began = agent.now;
  SECTION("it votes") {
    agent.pass_answered(20s, 0);
    agent.hear(rdzv::Propose{{1, 0}, decree(1, 2)});
    CHECK(agent.told<rdzv::Accepted>().size() == 1);
    agent.hear(rdzv::Finished{143, ""});
    CHECK(agent.state.exit_code == 143);
  }
  SECTION("no answers") {
    agent.pass(10s);
  }
  SECTION("no end") {
    agent.pass_answered(40s, 0);
  }
  SECTION("no vote") {
    agent.state.follower.decided.rank.reset();
    agent.pass_answered(6s, 0);
    CHECK(agent.now - began < 7s);
  }
  CHECK(agent.state.life == Life::done);
}

TEST_CASE("agent: told to end while it waits for a lease, it starts nothing", "[unit]") {
  Driver agent;
  agent.hear(rdzv::Prepare{generation(1, 2), 100});
  auto const sent = agent.own();
  agent.pass_answered(5s, 0);
  agent.hear(rdzv::Start{1, sent, 4000ms});  // it is late: its lease has ended
  agent.feed(EndSignal{SIGTERM});
  REQUIRE(agent.state.life == Life::farewell);
  agent.answer(agent.own(), 4000ms, 1);
  CHECK(agent.all<StartWorkers>().empty());
  CHECK(agent.state.life == Life::farewell);
}
