// Workers as the agent sees them: those that survive their generation, and those that it has to wait for at the end.
#include <csignal>

#include "rendezvous/values/verdict.hpp"
#include "tests/support/agent_driver.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;                  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent;           // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent::testing;  // NOLINT(google-build-using-namespace)

namespace {

StopOrder order(Millis grace, bool park, bool send = true, int signal = SIGTERM) {
  return {signal, send, grace, 60s, park};
}

/// The order to stop among the last actions.
std::optional<StopOrder> ordered(Driver const& agent) {
  auto const all = agent.all<StopWorkers>();
  return all.empty() ? std::nullopt : std::optional(all.back().order);
}

/// Generation 1 was stopped for a failure.
Driver stopping(rdzv::StopKind kind = rdzv::StopKind::failure) {
  Driver agent;
  agent.run().hear(rdzv::Stop{1, kind, "rank 0 is gone"});
  REQUIRE(agent.state.life == Life::stopping);
  return agent;
}

/// One worker of it waits.
Driver waiting() {
  Driver agent = stopping();
  agent.feed(GroupEnded{1, {}, {}, true});
  REQUIRE(agent.state.life == Life::waiting);
  return agent;
}

}  // namespace

TEST_CASE("agent: a failure or another size keeps workers that survive, the user's stop does not", "[unit]") {
  CHECK(ordered(stopping()) == order(5s, true));
  CHECK(ordered(stopping(rdzv::StopKind::resize)) == order(30s, true));
  CHECK(ordered(stopping(rdzv::StopKind::user)) == order(30s, false));
}

TEST_CASE("agent: a node that is checked before each generation keeps nobody", "[unit]") {
  Driver agent;
  agent.policy.health_check = true;
  agent.hear(rdzv::Prepare{generation(1, 2), 100});
  agent.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}});
  agent.hear(rdzv::Start{1, agent.own(), 4000ms});
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "why"});
  CHECK(ordered(agent) == order(5s, false));
}

TEST_CASE("agent: a drained node keeps nobody, and waits for the end of the job", "[unit]") {
  Driver agent = stopping(rdzv::StopKind::drain);
  CHECK(ordered(agent) == order(30s, false));
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  CHECK(agent.told<rdzv::Stopped>().size() == 1);
  CHECK(agent.state.life == Life::excluded);
  CHECK(agent.reason.find("excluded: rank 0 is gone") != std::string::npos);
  agent.hear(rdzv::Prepare{generation(2, 2), 100});
  CHECK((agent.state.life == Life::excluded && agent.told<rdzv::Ack>().empty()));
  agent.hear(rdzv::Finished{3, ""});
  REQUIRE(agent.all<Exit>().size() == 1);
  CHECK(agent.all<Exit>().front().code == 3);
}

TEST_CASE("agent: a drained node whose workers had ended waits for the end of the job, too", "[unit]") {
  Driver agent;
  agent.run().feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}});
  agent.hear(rdzv::Stop{1, rdzv::StopKind::drain, "drained by uid 7 on node1"});
  CHECK(agent.told<rdzv::Stopped>().size() == 1);
  CHECK(agent.state.life == Life::excluded);
}

TEST_CASE("agent: a drained node tells whoever takes the job over that it takes part no more", "[unit]") {
  Driver agent = stopping(rdzv::StopKind::drain);
  agent.feed(GroupEnded{1, {killed_exit()}, {}});
  agent.lose();
  agent.up(1);
  LinkId const leader = agent.link_to(1);
  agent.hear(rdzv::VoteRequest{1, {2, 1}}, leader);
  CHECK(agent.told<rdzv::Vote>().size() == 1);
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "coordinator lost"}, leader);
  CHECK(agent.told<rdzv::Stopped>().size() == 1);
  CHECK(agent.state.life == Life::excluded);
  agent.hear(rdzv::Prepare{generation(2, 1), 50}, leader);
  CHECK(agent.told<rdzv::Unfit>() == std::vector<rdzv::Unfit>{{2, "rank 0 is gone"}});
}

TEST_CASE("agent: with its workers parked a generation has stopped here, and they need no lease", "[unit]") {
  Driver agent = stopping();
  agent.feed(GroupEnded{1, {}, {}, true});
  CHECK(agent.told<rdzv::Stopped>() == std::vector<rdzv::Stopped>{{1, {}, {}}});
  CHECK(agent.all<HoldLease>() == std::vector<HoldLease>{{std::nullopt}});
  CHECK(agent.state.parked == 1);
  agent.pass_answered(60s, 0);
  CHECK((agent.state.life == Life::waiting && !agent.kills()));
}

TEST_CASE("agent: the next generation is started with those that wait", "[unit]") {
  Driver agent = waiting();
  agent.run(2);
  CHECK(agent.all<StartWorkers>().size() == 1);
  CHECK(agent.state.life == Life::running);
  CHECK_FALSE(agent.state.parked);
  agent.feed(GroupEnded{2, {rdzv::WorkerExit{}}, {}});
  CHECK(agent.told<rdzv::Succeeded>().size() == 1);
}

TEST_CASE("agent: nobody leaves while workers wait: the job is over, or the coordinator refuses", "[unit]") {
  for (rdzv::ToAgent const& last :
       {rdzv::ToAgent(rdzv::Finished{7, "line"}), rdzv::ToAgent(rdzv::Refused{7, "line"})}) {
    Driver agent = waiting();
    agent.hear(last);
    CHECK(ordered(agent) == order(5s, false));
    CHECK(agent.all<Exit>().empty());
    agent.feed(GroupEnded{1, {}, {}});
    REQUIRE(agent.all<Exit>().size() == 1);
    CHECK(agent.all<Exit>().front().code == 7);
  }
}

TEST_CASE("agent: told to end while workers wait, also for a generation that is prepared, it ends them first",
          "[unit]") {
  for (bool const prepared : {false, true}) {
    Driver agent = waiting();
    if (prepared) {
      agent.hear(rdzv::Prepare{generation(2, 2), 100});
    }
    agent.feed(EndSignal{SIGINT});
    CHECK(agent.told<rdzv::Leaving>().size() == 1);
    CHECK(ordered(agent) == order(30s, false, true, SIGINT));
    agent.feed(KillSignal{});
    CHECK(agent.kills());
    agent.feed(GroupEnded{1, {}, {}});
    CHECK(agent.told<rdzv::Stopped>().size() == 1);
    CHECK(agent.state.life == Life::farewell);
  }
}

TEST_CASE("agent: workers that Slurm has signalled are not signalled again because they wait", "[unit]") {
  Driver agent = waiting();
  agent.feed(EndSignal{SIGTERM, false});
  CHECK(ordered(agent) == order(30s, false, false));
}

TEST_CASE("agent: a stop that keeps workers turns into the user's, and they are signalled then", "[unit]") {
  Driver agent = stopping();
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "again"});
  CHECK(ordered(agent) == order(5s, true, false));
  agent.hear(rdzv::Stop{1, rdzv::StopKind::user, "node2 was told to end"});
  CHECK(ordered(agent) == order(30s, false));
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "again"});
  CHECK(ordered(agent) == order(5s, false, false));

  Driver told = stopping();
  told.feed(EndSignal{SIGTERM});
  CHECK(ordered(told) == order(30s, false));
}

TEST_CASE("agent: workers that have parked when an order comes that keeps nobody are not taken for kept", "[unit]") {
  Driver agent = stopping();
  agent.feed(EndSignal{SIGTERM});
  agent.feed(GroupEnded{1, {}, {}, true});  // it parked before the order came
  CHECK(agent.state.life == Life::leaving);
  CHECK(ordered(agent) == order(5s, false));
  agent.feed(GroupEnded{1, {}, {}});
  CHECK(agent.told<rdzv::Stopped>().size() == 1);

  Driver killed = stopping();
  killed.pass(10s);  // its lease runs out
  CHECK(killed.kills());
  killed.feed(GroupEnded{1, {}, {}, true});
  CHECK(killed.state.life != Life::waiting);
  killed.feed(GroupEnded{1, {}, {}});
  CHECK_FALSE(killed.state.parked);
}

TEST_CASE("agent: dropped, or left without a coordinator, it ends those that wait before anything else", "[unit]") {
  Driver dropped = waiting();
  dropped.hear(rdzv::Dropped{2, "why"});
  CHECK(ordered(dropped) == order(5s, false));
  CHECK(dropped.all<Rejoin>().empty());
  dropped.feed(GroupEnded{1, {}, {}});
  CHECK(dropped.all<Rejoin>().size() == 1);

  Driver alone;
  auto lonely = generation(1, 2);
  lonely.survives = false;
  lonely.successors.clear();
  alone.hear(rdzv::Prepare{lonely, 100});
  alone.hear(rdzv::Start{1, alone.own(), 4000ms});
  alone.hear(rdzv::Stop{1, rdzv::StopKind::failure, "why"});
  alone.feed(GroupEnded{1, {}, {}, true});
  alone.lose().gone();
  CHECK(ordered(alone) == order(5s, false));
  alone.feed(GroupEnded{1, {}, {}});
  REQUIRE(alone.all<Exit>().size() == 1);
  CHECK(alone.all<Exit>().front().code == kExitCoordinatorLost);
}

TEST_CASE("agent: workers that have succeeded say so, also when something they left survives SIGKILL", "[unit]") {
  auto agent = Driver().run();
  agent.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {"pid 7"}});
  CHECK(agent.told<rdzv::Succeeded>().size() == 1);
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "why"});
  CHECK(agent.told<rdzv::Stopped>().front().unkillable == std::vector<std::string>{"pid 7"});
}

TEST_CASE("agent: what survived SIGKILL beside those that wait is still told when they have gone", "[unit]") {
  Driver agent = stopping();
  agent.feed(GroupEnded{1, {killed_exit()}, {"pid 7"}, true});
  CHECK(agent.told<rdzv::Stopped>().front().unkillable == std::vector<std::string>{"pid 7"});
  agent.feed(EndSignal{SIGTERM});
  agent.feed(GroupEnded{1, {}, {}});
  CHECK(agent.told<rdzv::Stopped>() == std::vector<rdzv::Stopped>{{1, {killed_exit()}, {"pid 7"}}});
}

namespace {

/// Other nodes need not wait for its workers. One worker has ended; others wait if `some`.
Driver lacking(bool some, rdzv::StopKind kind = rdzv::StopKind::failure) {
  Driver agent = stopping(kind);
  agent.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}, some, {}, true});
  return agent;
}

}  // namespace

TEST_CASE("agent: a node that lacks workers says so, and starts them when it is left out", "[unit]") {
  for (bool const some : {true, false}) {
    Driver agent = lacking(some);
    REQUIRE(agent.told<rdzv::Stopped>().size() == 1);
    CHECK(agent.told<rdzv::Stopped>().front().lacks);
    agent.hear(rdzv::LeftOut{2});
    REQUIRE(agent.all<FillWorkers>().size() == 1);
    CHECK(agent.all<FillWorkers>().front().generation.number == 1);
    agent.hear(rdzv::LeftOut{3});
    CHECK(agent.all<FillWorkers>().empty());
    agent.feed(Filled{1, true});
    CHECK(agent.told<rdzv::Complete>() == std::vector{rdzv::Complete{1}});
    agent.hear(rdzv::Prepare{generation(3, 2), 200});
    CHECK(agent.told<rdzv::Ack>().size() == 1);
    agent.hear(rdzv::Start{3, agent.own(), 4000ms});
    CHECK(agent.all<StartWorkers>().size() == 1);
  }
}

TEST_CASE("agent: that a worker has ended once more is told as well, so that the node is not left out for ever",
          "[unit]") {
  Driver agent = lacking(true);
  agent.hear(rdzv::LeftOut{2});
  agent.feed(Filled{1, false});
  CHECK(agent.told<rdzv::Complete>().size() == 1);
}

TEST_CASE("agent: what is missing is not started where the next generation has come, and by no other link", "[unit]") {
  Driver agent = lacking(true);
  agent.hear(rdzv::LeftOut{2}, kFirstLink + 7);
  CHECK(agent.all<FillWorkers>().empty());
  agent.hear(rdzv::Prepare{generation(2, 2), 200});
  agent.hear(rdzv::LeftOut{3});
  CHECK(agent.all<FillWorkers>().empty());
  agent.feed(Filled{1, true});  // of an earlier generation
  CHECK(agent.told<rdzv::Complete>().empty());
  Driver whole = waiting();
  whole.hear(rdzv::LeftOut{2});
  CHECK(whole.all<FillWorkers>().empty());
}

TEST_CASE("agent: whoever starts what is missing and is told to end stops it first", "[unit]") {
  Driver agent = lacking(false);
  agent.hear(rdzv::LeftOut{2});
  agent.feed(EndSignal{SIGTERM});
  CHECK(ordered(agent) == order(30s, false));
  CHECK(agent.state.life == Life::leaving);
  agent.feed(GroupEnded{1, {}, {}});
  CHECK(agent.state.life == Life::farewell);
}

TEST_CASE("agent: a node with a health check lacks nothing that others could go on without", "[unit]") {
  Driver agent;
  agent.policy.health_check = true;
  agent.hear(rdzv::Prepare{generation(1, 2), 100});
  agent.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}});
  agent.hear(rdzv::Start{1, agent.own(), 4000ms});
  agent.hear(rdzv::Stop{1, rdzv::StopKind::failure, "why"});
  agent.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}, false, {}, true});
  REQUIRE(agent.told<rdzv::Stopped>().size() == 1);
  CHECK_FALSE(agent.told<rdzv::Stopped>().front().lacks);
}

// ---- a signal to end --------------------------------------------------------------------------------------------

namespace {

// Of three workers, `ended` of which have ended well.
Driver running(std::uint32_t ended = 0) {
  Driver agent;
  auto three = generation(1, agent.rank);
  three.local_size = 3;
  agent.hear(rdzv::Prepare{three, 100});
  agent.hear(rdzv::Start{1, agent.own(), 4000ms});
  for (std::uint32_t i = 0; i < ended; ++i) {
    agent.feed(WorkerEnded{1, {}});
  }
  return agent;
}

std::string said(Driver agent, EndSignal const& signal) {
  agent.feed(signal);
  return agent.reason;
}

}  // namespace

TEST_CASE("agent: whoever tells it to end hears for how many workers it waits, and how long", "[unit]") {
  CHECK(said(running(), {SIGTERM}) == "told to end by SIGTERM: waiting up to 30 s for 3 workers");
  CHECK(said(running(2), {SIGTERM, false}) == "told to end by SIGTERM: waiting up to 30 s for 1 worker");
  CHECK(said(running(1), {SIGINT, true, true}) ==
        "told to end by SIGINT: waiting up to 30 s for 2 workers; Ctrl-C again kills them");
  auto slurm = running();
  slurm.policy.end_timeout = 27'000ms;
  CHECK(said(running(), {SIGTERM, true, false, "from pid 7 (kill), uid 0"}) ==
        "told to end by SIGTERM from pid 7 (kill), uid 0: waiting up to 30 s for 3 workers");
  CHECK(said(slurm, {SIGTERM}) == "told to end by SIGTERM: waiting up to 27 s for 3 workers");
}

TEST_CASE("agent: nobody is told to wait where nobody is waited for", "[unit]") {
  CHECK(said(Driver(), {SIGTERM}) == "told to end by SIGTERM");
  CHECK(said(running(3), {SIGTERM}) == "told to end by SIGTERM");
  auto hasty = running();
  hasty.policy.end_timeout = 0ms;
  CHECK(said(hasty, {SIGINT, true, true}) == "told to end by SIGINT");
}

TEST_CASE("agent: a stop that is under way has its own deadline, and Ctrl-C still kills", "[unit]") {
  auto agent = running();
  agent.hear(rdzv::Stop{1, rdzv::StopKind::user, "node1 was told to end by SIGTERM"});
  CHECK(said(agent, {SIGINT, true, true}) ==
        "told to end by SIGINT: workers are being stopped already; Ctrl-C again kills them");
}
