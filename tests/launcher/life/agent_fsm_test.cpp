#include <algorithm>
#include <csignal>

#include "launcher/life/agent_state.hpp"
#include "rendezvous/values/verdict.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;
using namespace cxxrun::launcher::agent;
using namespace std::chrono_literals;
namespace rdzv = cxxrun::rendezvous;

namespace {

struct Driver {
  Driver() { feed(LinkUp{}); }
  Policy policy;
  State state;
  std::vector<Action> feed(Event const& event, TimePoint now = {}) {
    Step result = step(std::move(state), event, now, policy);
    state = std::move(result.next);
    return std::move(result.actions);
  }
};

/// The lost coordinator is called again, and its port refuses.
LinkFailed gone(Driver const& driver) {
  return {driver.state.follower.recall->link, "refused", true};
}

rdzv::Generation generation(std::uint64_t number) {
  rdzv::Generation g;
  g.number = number;
  g.local_size = 2;
  return g;
}

rdzv::WorkerExit bad_exit() {
  rdzv::WorkerExit exit;
  exit.status = ExitStatus::exited(3);
  return exit;
}

Driver driver_at(Life life) {
  Driver driver;
  driver.policy.farewell_timeout = 5s;
  if (life == Life::waiting) {
    return driver;
  }
  if (life == Life::checking) {
    driver.policy.health_check = true;
    driver.feed(FromLink{kFirstLink, rdzv::Prepare{generation(1)}});
    return driver;
  }
  if (life == Life::excluded) {
    driver = driver_at(Life::checking);
    driver.feed(GroupEnded{1, {bad_exit()}, {}});
    return driver;
  }
  driver.feed(FromLink{kFirstLink, rdzv::Prepare{generation(1)}});
  if (life == Life::ready) {
    return driver;
  }
  if (life == Life::farewell) {
    driver.feed(EndSignal{SIGTERM});
    return driver;
  }
  driver.feed(FromLink{kFirstLink, rdzv::Start{1}});
  if (life == Life::ended) {
    driver.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}});
  } else if (life == Life::stopping) {
    driver.feed(FromLink{kFirstLink, rdzv::Stop{1, rdzv::StopKind::failure, "a peer died"}});
  } else if (life == Life::leaving) {
    driver.feed(EndSignal{SIGTERM});
  } else if (life == Life::done) {
    driver.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}});
    driver.feed(FromLink{kFirstLink, rdzv::Finished{0, ""}});
  }
  REQUIRE(driver.state.life == life);
  return driver;
}

bool tells_stopped(std::vector<Action> const& actions) {
  for (auto const& action : actions) {
    if (auto const* tell = std::get_if<TellLink>(&action)) {
      if (std::holds_alternative<rdzv::Stopped>(tell->message)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

TEST_CASE("agent: prepare is acknowledged, start starts, success is told, finished ends", "[unit]") {
  Driver driver;
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Prepare{generation(1)}}) ==
        std::vector<Action>{TellLink{kFirstLink, rdzv::Ack{1}}});
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Start{1}}) == std::vector<Action>{StartWorkers{generation(1)}});
  CHECK(driver.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}}) ==
        std::vector<Action>{TellLink{kFirstLink, rdzv::Succeeded{1}}});
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Finished{0, ""}}) == std::vector<Action>{Exit{0, ""}});
}

TEST_CASE("agent: a failed worker is told at once, the stop is waited for", "[unit]") {
  auto driver = driver_at(Life::running);
  CHECK(driver.feed(WorkerEnded{1, bad_exit()}) ==
        std::vector<Action>{TellLink{kFirstLink, rdzv::WorkerFailed{1, bad_exit()}}});
  CHECK(driver.state.life == Life::running);
  auto const stop = driver.feed(FromLink{kFirstLink, rdzv::Stop{1, rdzv::StopKind::failure, "why"}});
  CHECK(stop == std::vector<Action>{StopWorkers{StopOrder{SIGTERM, true, 5s, 60s, true}}});
  CHECK(tells_stopped(driver.feed(GroupEnded{1, {bad_exit()}, {}})));
  CHECK(driver.state.life == Life::waiting);
}

TEST_CASE("agent: who ended with 0 while others waited for it is told as failed, and counts as ended once", "[unit]") {
  auto driver = driver_at(Life::running);
  driver.feed(WorkerEnded{1, {}});
  auto const living = driver.state.living;
  rdzv::WorkerExit missed;
  missed.hung = "left while 3 others still called";
  CHECK(driver.feed(WorkerEnded{1, missed}) ==
        std::vector<Action>{TellLink{kFirstLink, rdzv::WorkerFailed{1, missed}}});
  CHECK(driver.state.living == living);
  CHECK(driver.feed(WorkerEnded{2, missed}).empty());  // of another generation
}

TEST_CASE("agent: how long ago the workers that ended took their steps is told of their generation alone", "[unit]") {
  auto driver = driver_at(Life::stopping);
  rdzv::Stopped told{1, {bad_exit()}, {}, {9s, 2s}};
  rdzv::StepTimes const steps{TimePoint{} - 9s, TimePoint{} - 2s};
  CHECK(driver.feed(GroupEnded{1, {bad_exit()}, {}, false, steps}) == std::vector<Action>{TellLink{kFirstLink, told}});
  driver.feed(FromLink{kFirstLink, rdzv::Prepare{generation(2)}});
  told = {2, {}, {}, {}};
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Stop{2, rdzv::StopKind::failure, "why"}}) ==
        std::vector<Action>{TellLink{kFirstLink, told}});
}

TEST_CASE("agent: a worker that our own stop ended is not told as a failure", "[unit]") {
  auto driver = driver_at(Life::stopping);
  auto exit = bad_exit();
  exit.ours = true;
  CHECK(driver.feed(WorkerEnded{1, exit}).empty());
}

TEST_CASE("agent: the user's stop gets the long grace, a peer's failure the short one", "[unit]") {
  auto driver = driver_at(Life::running);
  auto const actions = driver.feed(EndSignal{SIGINT});
  REQUIRE(actions.size() == 2);
  CHECK(actions[0] == Action{TellLink{kFirstLink, rdzv::Leaving{SIGINT}}});
  CHECK(actions[1] == Action{StopWorkers{StopOrder{SIGINT, true, 30s, 60s}}});
  CHECK(driver.feed(EndSignal{SIGTERM}).empty());
  CHECK(driver.feed(KillSignal{}) == std::vector<Action>{StopWorkers{StopOrder{SIGKILL, true, 0s, 60s}}});
}

TEST_CASE("agent: workers that Slurm has signalled are not signalled again", "[unit]") {
  auto driver = driver_at(Life::running);
  auto const actions = driver.feed(EndSignal{SIGTERM, false});
  CHECK(actions.back() == Action{StopWorkers{StopOrder{SIGTERM, false, 30s, 60s}}});
}

namespace {

/// Whether the actions order a stop, and whether with a signal from us.
std::optional<bool> signals(std::vector<Action> const& actions) {
  for (auto const& action : actions) {
    if (auto const* stop = std::get_if<StopWorkers>(&action)) {
      return stop->order.send_signal;
    }
  }
  return std::nullopt;
}

/// Another node was told to end, in a job in which Slurm signals every process itself.
Driver driver_that_waits_for_slurm() {
  Driver driver = driver_at(Life::running);
  driver.policy.slurm_signals_all = true;
  auto const actions = driver.feed(FromLink{kFirstLink, rdzv::Stop{1, rdzv::StopKind::user, "node2 was told to end"}});
  CHECK(signals(actions) == false);
  CHECK(std::find(actions.begin(), actions.end(), Action(ArmTimer{TimePoint{} + 1s})) != actions.end());
  return driver;
}

}  // namespace

TEST_CASE("agent: when Slurm signals every node itself, the news of it from another node is not a second signal",
          "[unit]") {
  Driver driver = driver_that_waits_for_slurm();
  CHECK(signals(driver.feed(EndSignal{SIGTERM, false})) == false);
  CHECK_FALSE(signals(driver.feed(Tick{}, TimePoint{} + 2s)));
}

TEST_CASE("agent: a signal that Slurm does not send after all is ours to send", "[unit]") {
  Driver silent = driver_that_waits_for_slurm();
  CHECK_FALSE(signals(silent.feed(Tick{}, TimePoint{} + 999ms)));
  CHECK(signals(silent.feed(Tick{}, TimePoint{} + 1s)) == true);
  CHECK_FALSE(signals(silent.feed(Tick{}, TimePoint{} + 2s)));
  Driver told = driver_that_waits_for_slurm();
  CHECK(signals(told.feed(EndSignal{SIGTERM, true})) == true);
}

TEST_CASE("agent: the end of the job has a grace of its own, a resize does not", "[unit]") {
  for (auto const& [kind, grace] : {std::pair(rdzv::StopKind::user, 7s), std::pair(rdzv::StopKind::resize, 30s)}) {
    Driver driver = driver_at(Life::running);
    driver.policy.end_timeout = 7s;
    auto const actions = driver.feed(FromLink{kFirstLink, rdzv::Stop{1, kind, ""}});
    REQUIRE_FALSE(actions.empty());
    CHECK(std::get<StopWorkers>(actions.front()).order.grace == grace);
  }
}

TEST_CASE("agent: the coordinator's loss stops the workers and has a code of its own", "[unit]") {
  auto driver = driver_at(Life::running);
  driver.feed(LinkDown{kFirstLink, "end of file"});
  driver.feed(gone(driver));
  auto const actions = driver.feed(GroupEnded{1, {}, {}});
  REQUIRE(actions.size() == 1);
  CHECK(std::get<Exit>(actions[0]).code == kExitCoordinatorLost);

  auto idle = driver_at(Life::waiting);
  idle.feed(LinkDown{kFirstLink, "reset"});
  CHECK(std::get<Exit>(idle.feed(gone(idle)).back()).code == kExitCoordinatorLost);
}

TEST_CASE("agent: told to end between ack and start, it still answers for the generation", "[unit]") {
  auto driver = driver_at(Life::ready);
  CHECK(tells_stopped(driver.feed(EndSignal{SIGTERM})));
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Start{1}}).empty());
}

TEST_CASE("agent: told to end before anybody knows it, it leaves at once", "[unit]") {
  Driver driver;
  driver.state.joined = false;
  CHECK(driver.feed(EndSignal{SIGTERM}) == std::vector<Action>{Exit{128 + SIGTERM, ""}});
}

TEST_CASE("agent: a node is checked before it acknowledges, and again once workers have run", "[unit]") {
  Driver driver;
  driver.policy.health_check = true;
  auto const actions = driver.feed(FromLink{kFirstLink, rdzv::Prepare{generation(1)}});
  CHECK(actions == std::vector<Action>{RunCheck{generation(1)}, ArmTimer{TimePoint{} + 60s}});
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Prepare{generation(2)}}).empty());  // the running check will do
  CHECK(driver.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}}) ==
        std::vector<Action>{TellLink{kFirstLink, rdzv::Ack{2}}});
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Prepare{generation(3)}}, TimePoint{} + 59s) ==
        std::vector<Action>{TellLink{kFirstLink, rdzv::Ack{3, 0, 59'000'000}}});
  driver.feed(FromLink{kFirstLink, rdzv::Start{3}});
  driver.feed(FromLink{kFirstLink, rdzv::Stop{3, rdzv::StopKind::failure, "why"}});
  driver.feed(GroupEnded{3, {bad_exit()}, {}});
  auto const again = driver.feed(FromLink{kFirstLink, rdzv::Prepare{generation(4)}});
  CHECK(again.front() == Action{RunCheck{generation(4)}});
}

TEST_CASE("agent: a passed check counts for a minute", "[unit]") {
  auto driver = driver_at(Life::checking);
  driver.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}});
  auto const actions = driver.feed(FromLink{kFirstLink, rdzv::Prepare{generation(2)}}, TimePoint{} + 60s);
  CHECK(actions.front() == Action{RunCheck{generation(2)}});
}

TEST_CASE("agent: a failed check is told instead of the ack, and nothing starts here any more", "[unit]") {
  auto driver = driver_at(Life::checking);
  auto exit = bad_exit();
  exit.stderr_tail = "GPU 3 fell off the bus\n\n";
  CHECK(driver.feed(WorkerEnded{1, exit}).empty());
  auto const actions = driver.feed(GroupEnded{1, {exit}, {}});
  CHECK(actions.front() ==
        Action{TellLink{kFirstLink, rdzv::Unfit{1, "health check: exit code 3: GPU 3 fell off the bus"}}});
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Prepare{generation(2)}}).empty());
  CHECK(driver.feed(Tick{}, TimePoint{} + 24h).empty());  // it stays until the job ends
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Finished{0, ""}}) == std::vector<Action>{Exit{0, ""}});
}

TEST_CASE("agent: a check that takes too long is killed, and has failed whatever its code", "[unit]") {
  auto driver = driver_at(Life::checking);
  CHECK(driver.feed(Tick{}, TimePoint{} + 59s).empty());
  CHECK(driver.feed(Tick{}, TimePoint{} + 60s) == std::vector<Action>{StopWorkers{StopOrder{SIGKILL, true, 0s, 60s}}});
  CHECK(driver.feed(Tick{}, TimePoint{} + 61s).empty());
  auto const actions = driver.feed(GroupEnded{1, {rdzv::WorkerExit{}}, {}});
  CHECK(actions.front() == Action{TellLink{kFirstLink, rdzv::Unfit{1, "health check: still ran after 60 s"}}});
}

TEST_CASE("agent: told to end while it checks, it kills the check and then says so", "[unit]") {
  auto driver = driver_at(Life::checking);
  CHECK(driver.feed(EndSignal{SIGTERM}) == std::vector<Action>{TellLink{kFirstLink, rdzv::Leaving{SIGTERM}},
                                                               StopWorkers{StopOrder{SIGKILL, true, 0s, 60s}}});
  auto const actions = driver.feed(GroupEnded{1, {bad_exit()}, {}});
  CHECK(actions.front() == Action{TellLink{kFirstLink, rdzv::Stopped{1, {}, {}}}});
  CHECK(driver.state.life == Life::farewell);

  auto over = driver_at(Life::checking);
  CHECK(over.feed(FromLink{kFirstLink, rdzv::Finished{112, "line"}}).size() == 1);
  CHECK(over.feed(GroupEnded{1, {bad_exit()}, {}}) == std::vector<Action>{Exit{112, "line"}});
}

TEST_CASE("agent: without a final message it leaves after the farewell timeout", "[unit]") {
  auto driver = driver_at(Life::farewell);
  CHECK(driver.feed(Tick{}, TimePoint{} + 4s).empty());
  auto const actions = driver.feed(Tick{}, TimePoint{} + 5s);
  REQUIRE(actions.size() == 1);
  CHECK(std::get<Exit>(actions[0]).code == 128 + SIGTERM);
}

TEST_CASE("agent: every event in every life has an answer, and workers never run unseen", "[unit]") {
  std::vector<Event> const events{LinkUp{},
                                  FromLink{kFirstLink, rdzv::Prepare{generation(1)}},
                                  FromLink{kFirstLink, rdzv::Prepare{generation(2)}},
                                  FromLink{kFirstLink, rdzv::Start{1}},
                                  FromLink{kFirstLink, rdzv::Start{2}},
                                  FromLink{kFirstLink, rdzv::Stop{1, rdzv::StopKind::user, "why"}},
                                  FromLink{kFirstLink, rdzv::Finished{7, "line"}},
                                  FromLink{kFirstLink, rdzv::Refused{100, "why"}},
                                  WorkerEnded{1, bad_exit()},
                                  GroupEnded{1, {bad_exit()}, {}},
                                  GroupEnded{0, {}, {}},
                                  LinkDown{kFirstLink, "reset"},
                                  EndSignal{SIGTERM},
                                  KillSignal{},
                                  Tick{}};
  for (auto const life : {Life::waiting, Life::checking, Life::excluded, Life::ready, Life::running, Life::ended,
                          Life::stopping, Life::leaving, Life::farewell, Life::done}) {
    for (auto const& first : events) {
      for (auto const& second : events) {
        auto driver = driver_at(life);
        int exits = 0;
        bool alive = life == Life::running || life == Life::checking || life == Life::stopping || life == Life::leaving;
        for (auto const& event : {first, second}) {
          if (auto const* ended = std::get_if<GroupEnded>(&event); ended != nullptr && ended->number == 1) {
            alive = false;
          }
          for (auto const& action : driver.feed(event, TimePoint{} + 1h)) {
            alive = alive || std::holds_alternative<StartWorkers>(action) || std::holds_alternative<RunCheck>(action);
            exits += std::holds_alternative<Exit>(action) ? 1 : 0;
          }
        }
        CHECK(exits <= 1);
        CHECK((exits == 0 || !alive));
        CHECK((driver.state.life == Life::done) == (exits == 1 || life == Life::done));
      }
    }
  }
}

TEST_CASE("agent: a worker is killed on order of whoever leads, while workers of that generation run", "[unit]") {
  rdzv::Kill const order{1, 5, 811, "did not enter all_reduce #812"};
  for (Life const life : {Life::waiting, Life::checking, Life::ready, Life::running, Life::ended, Life::stopping,
                          Life::excluded, Life::leaving, Life::farewell}) {
    auto driver = driver_at(life);
    auto const base = driver.state.generation ? driver.state.generation->rank_base : 0;
    auto mine = order;
    mine.rank = base + 1;
    auto const actions = driver.feed(FromLink{kFirstLink, mine});
    CHECK(driver.state.life == life);
    if (life == Life::running) {
      CHECK(actions == std::vector<Action>{KillWorker{1, mine}});
    } else {
      CHECK(actions.empty());
    }
  }
  auto driver = driver_at(Life::running);
  auto const base = driver.state.generation->rank_base;
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Kill{2, base, 1, "why"}}).empty());
  CHECK(driver.feed(FromLink{kFirstLink, rdzv::Kill{1, base + 2, 1, "why"}}).empty());
  CHECK(driver.feed(FromLink{kFirstLink + 1, rdzv::Kill{1, base, 1, "why"}}).empty());
}

TEST_CASE("agent: workers that stand still are told of while they run, and to nobody when nobody coordinates",
          "[unit]") {
  std::vector<rdzv::Standstill> const workers{{5, 8, 7, 0, 25, 15s, false}};
  auto driver = driver_at(Life::running);
  CHECK(driver.feed(StoodStill{1, workers}) == std::vector<Action>{TellLink{kFirstLink, rdzv::Progress{1, workers}}});
  CHECK(driver.feed(StoodStill{2, workers}).empty());
  for (Life const life : {Life::ready, Life::ended, Life::stopping, Life::leaving}) {
    auto other = driver_at(life);
    CHECK(other.feed(StoodStill{1, workers}).empty());
  }
}

TEST_CASE("agent: who has ended with 0 is told of after 5 s, once, while others of the node go on", "[unit]") {
  auto const left = [](std::vector<Action> const& actions) {
    std::vector<std::uint32_t> ranks;
    for (auto const& action : actions) {
      if (auto const* tell = std::get_if<TellLink>(&action)) {
        if (auto const* progress = std::get_if<rdzv::Progress>(&tell->message)) {
          ranks.insert(ranks.end(), progress->left.begin(), progress->left.end());
        }
      }
    }
    return ranks;
  };
  rdzv::WorkerExit good;
  good.rank = 1;
  auto driver = driver_at(Life::running);
  driver.feed(WorkerEnded{1, good}, TimePoint{1s});
  CHECK(left(driver.feed(Tick{}, TimePoint{5s})).empty());
  CHECK(left(driver.feed(Tick{}, TimePoint{6s})) == std::vector<std::uint32_t>{1});
  CHECK(left(driver.feed(Tick{}, TimePoint{60s})).empty());

  auto all = driver_at(Life::running);
  all.feed(WorkerEnded{1, good});
  all.feed(WorkerEnded{1, rdzv::WorkerExit{}});
  all.feed(GroupEnded{1, {rdzv::WorkerExit{}, good}, {}});
  CHECK(left(all.feed(Tick{}, TimePoint{60s})).empty());

  auto stopped = driver_at(Life::running);
  stopped.feed(WorkerEnded{1, good});
  stopped.feed(FromLink{kFirstLink, rdzv::Stop{1, rdzv::StopKind::failure, "a peer died"}});
  CHECK(left(stopped.feed(Tick{}, TimePoint{60s})).empty());

  auto failed = driver_at(Life::running);
  failed.feed(WorkerEnded{1, bad_exit()});
  CHECK(left(failed.feed(Tick{}, TimePoint{60s})).empty());
}

TEST_CASE("agent: the error file of the job's first failure is handed on by the agent that has it", "[unit]") {
  auto exit = bad_exit();
  exit.rank = 1;
  auto const handed = [&](rdzv::Finished const& finished) {
    auto driver = driver_at(Life::running);
    driver.feed(WorkerEnded{1, exit});
    driver.feed(FromLink{kFirstLink, rdzv::Stop{1, rdzv::StopKind::failure, "it"}});
    driver.feed(GroupEnded{1, {rdzv::WorkerExit{}, exit}, {}});
    auto const actions = driver.feed(FromLink{kFirstLink, finished});
    return std::count(actions.begin(), actions.end(), Action{HandErrorFile{1, exit}}) == 1;
  };
  CHECK(handed({3, "", 1}));
  CHECK_FALSE(handed({3, "", 0}));  // it has ended with 0
  CHECK_FALSE(handed({3, "", 2}));
  CHECK_FALSE(handed({3, ""}));
}
