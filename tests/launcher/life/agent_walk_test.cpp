// Every situation of an agent whose run has heartbeats, times every pair of events.
#include <csignal>
#include <set>

#include "tests/support/agent_driver.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent;           // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent::testing;  // NOLINT(google-build-using-namespace)

namespace {

using Story = void (*)(Driver&);

/// Generation 1 is stopped, and a worker waits for the next one.
Event const kWaiting = GroupEnded{1, {killed_exit()}, {}, true};
void keep(Driver& agent) {
  agent.run().hear(rdzv::Stop{1, rdzv::StopKind::failure, "why"});
}

/// The node is checked before generation 1.
void check(Driver& agent) {
  agent.policy.health_check = true;
  agent.hear(rdzv::Prepare{generation(1, 2), 100});
}
rdzv::WorkerExit failed_exit() {
  rdzv::WorkerExit exit;
  exit.status = ExitStatus::exited(1);
  return exit;
}

/// The situations that are walked, each reached from generation 1 at rank 2.
std::vector<Story> const stories{
    [](Driver& agent) { agent.state = {}; },
    [](Driver&) {},
    [](Driver& agent) {
      agent.hear(rdzv::Prepare{generation(1, 2), 100});
    },
    [](Driver& agent) { agent.run(); },
    [](Driver& agent) { agent.run().pass(4s); },
    [](Driver& agent) {
      agent.run().feed(GroupEnded{1, {killed_exit()}, {}});
    },
    [](Driver& agent) {
      agent.run().now += 1h;
      agent.feed(Tick{});
    },
    [](Driver& agent) { agent.run().lose(); },
    [](Driver& agent) {
      agent.run().lose();
      agent.up(1);
      agent.hear(rdzv::VoteRequest{1, {2, 1}}, agent.link_to(1));
    },
    [](Driver& agent) { agent.run().lose().pass(300ms); },
    [](Driver& agent) { agent.run().lose().pass(30s); },
    [](Driver& agent) {
      agent.run().lose();
      agent.up(1);
      agent.hear(rdzv::Dropped{2, "why"}, agent.link_to(1));
    },
    [](Driver& agent) { agent.run().feed(EndSignal{SIGTERM}); },
    [](Driver& agent) { agent.feed(EndSignal{SIGTERM}); },
    [](Driver& agent) {
      agent.hear(rdzv::Finished{7, "line"});
    },
    [](Driver& agent) { check(agent); },
    [](Driver& agent) {
      check(agent);
      agent.feed(GroupEnded{1, {failed_exit()}, {}});
    },
    [](Driver& agent) {
      agent.run().hear(rdzv::Stop{1, rdzv::StopKind::drain, "why"});
    },
    [](Driver& agent) {
      agent.run().hear(rdzv::Stop{1, rdzv::StopKind::drain, "why"});
      agent.feed(GroupEnded{1, {killed_exit()}, {}});
    },
    [](Driver& agent) { keep(agent); },
    [](Driver& agent) {
      keep(agent);
      agent.feed(kWaiting);
    },
    [](Driver& agent) {
      keep(agent);
      agent.feed(kWaiting);
      agent.hear(rdzv::Prepare{generation(2, 2), 100});
    },
    [](Driver& agent) {
      keep(agent);
      agent.feed(kWaiting);
      agent.lose();
    },
};

std::vector<Event> events_of_an_election() {
  std::vector<Event> events;
  for (LinkId const link : {kFirstLink, LinkId{2}, LinkId{3}}) {
    for (rdzv::ToAgent const& message :
         {rdzv::ToAgent(rdzv::Prepare{generation(2, 1), 5}), rdzv::ToAgent(rdzv::Start{1, 0, 4000ms}),
          rdzv::ToAgent(rdzv::Start{2, 3'600'000'000, 4000ms}), rdzv::ToAgent(rdzv::Stop{1, {}, "why"}),
          rdzv::ToAgent(rdzv::Kill{1, 2, 7, "why"}), rdzv::ToAgent(rdzv::Finished{7, "line"}),
          rdzv::ToAgent(rdzv::Refused{100, "why"}), rdzv::ToAgent(rdzv::VoteRequest{1, {2, 1}}),
          rdzv::ToAgent(rdzv::VoteRequest{1, {3, 2}}), rdzv::ToAgent(rdzv::Propose{{1, 0}, decree(1, 2)}),
          rdzv::ToAgent(rdzv::Propose{{2, 1}, decree(1, 2)}), rdzv::ToAgent(rdzv::Decided{decree(0, 1), {}}),
          rdzv::ToAgent(rdzv::Decided{decree(1, 2), {successor(1)}}), rdzv::ToAgent(rdzv::Dropped{0, "why"}),
          rdzv::ToAgent(rdzv::Dropped{2, "why"}), rdzv::ToAgent(rdzv::LeftOut{1})}) {
      events.emplace_back(FromLink{link, message});
    }
    events.emplace_back(LinkUp{link, "c" + std::to_string(link)});
    events.emplace_back(LinkDown{link, "reset", rdzv::Ended::in_order});
    events.emplace_back(LinkFailed{link, "refused", true});
    events.emplace_back(LinkFailed{link, "no answer", false});
    events.emplace_back(BeatAnswered{link, rdzv::BeatAck{3'600'000'000, 9, 4000ms, 1}});
  }
  events.emplace_back(SteppedDown{"why"});
  events.emplace_back(WorkerEnded{1, killed_exit()});
  events.emplace_back(GroupEnded{1, {killed_exit()}, {}});
  events.emplace_back(GroupEnded{1, {killed_exit()}, {"pid 7"}});
  events.emplace_back(kWaiting);
  events.emplace_back(Filled{1, true});
  events.emplace_back(Filled{1, false});
  events.emplace_back(EndSignal{SIGTERM});
  events.emplace_back(KillSignal{});
  events.emplace_back(StoodStill{1, {{}}});
  events.emplace_back(Tick{});
  return events;
}

/// While workers wait, the agent neither leaves nor takes a new incarnation; and workers never wait for nothing.
void check_waiting(Driver const& agent, State const& before, Event const& event) {
  auto const& state = agent.state;
  bool const gone = std::holds_alternative<GroupEnded>(event);
  bool ends = false;
  for (auto const& action : agent.actions) {
    bool const goes = std::holds_alternative<Exit>(action) || std::holds_alternative<Rejoin>(action);
    REQUIRE((!goes || !state.parked));
    REQUIRE((!goes || !before.parked || gone));
    auto const* const stop = std::get_if<StopWorkers>(&action);
    ends = ends || (stop != nullptr && !stop->order.park);
  }
  bool const stopped = state.parked && (state.life == Life::leaving || state.life == Life::stopping);
  REQUIRE((!stopped || !state.parks));
  REQUIRE((!stopped || before.life == state.life || ends));
}

/// What holds after every step, whatever happened.
void check_rules(Driver const& agent, bool& workers) {
  auto const& state = agent.state;
  for (auto const& action : agent.actions) {
    workers = workers || std::holds_alternative<StartWorkers>(action);
    if (std::holds_alternative<StartWorkers>(action)) {
      REQUIRE((state.lease && *state.lease > agent.now));
    }
    if (std::holds_alternative<Exit>(action) || std::holds_alternative<Rejoin>(action)) {
      REQUIRE_FALSE(workers);
    }
  }
  REQUIRE(workers == state.workers);
  REQUIRE((state.life == Life::done || !state.joined || state.armed));   // no agent waits without a timer
  REQUIRE((!state.armed || *state.armed > agent.now || !agent.ticked));  // and no timer spins
  REQUIRE((!state.workers || state.killed || state.frozen || *state.lease > agent.now));
  REQUIRE((!state.follower.search || state.follower.main == 0));
  REQUIRE(state.follower.links.size() <= rdzv::kMaxSuccessors + 1);
  REQUIRE((state.follower.favoured == 0 || state.follower.links.contains(state.follower.favoured)));
  REQUIRE((state.connected == (state.follower.main != 0 && state.follower.links.contains(state.follower.main)) ||
           state.life == Life::done || state.life == Life::leaving));
}

}  // namespace

TEST_CASE("agent: in every situation every pair of events leaves the rules of the election intact", "[unit]") {
  auto const events = events_of_an_election();
  for (auto const& story : stories) {
    Driver before;
    story(before);
    auto const feed = [](Driver& agent, bool& workers, Event const& event) {
      auto const* const ended = std::get_if<GroupEnded>(&event);
      workers = workers && (ended == nullptr || ended->number != agent.state.generation->number);
      agent.now += 10ms;
      State const earlier = agent.state;
      agent.feed(event);
      check_rules(agent, workers);
      check_waiting(agent, earlier, event);
    };
    for (auto const& first : events) {
      INFO("situation " << &story - stories.data() << ", event " << &first - events.data());
      Driver once = before;
      bool worked = once.state.workers;
      feed(once, worked, first);
      for (auto const& second : events) {
        INFO("and event " << &second - events.data());
        Driver twice = once;
        bool workers = worked;
        feed(twice, workers, second);
      }
    }
  }
}

TEST_CASE("agent: the situations are of every life, and the events of every kind", "[unit]") {
  std::set<Life> lives;
  for (auto const& story : stories) {
    Driver agent;
    story(agent);
    lives.insert(agent.state.life);
  }
  for (int life = 0; life <= static_cast<int>(Life::done); ++life) {
    CHECK(lives.contains(static_cast<Life>(life)));
  }
  std::set<std::size_t> kinds;
  std::set<std::size_t> messages;
  for (auto const& event : events_of_an_election()) {
    kinds.insert(event.index());
    if (auto const* const heard = std::get_if<FromLink>(&event)) {
      messages.insert(heard->message.index());
    }
  }
  CHECK(kinds.size() == std::variant_size_v<Event>);
  CHECK(messages.size() == std::variant_size_v<rdzv::ToAgent>);
}
