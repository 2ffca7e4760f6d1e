// The coordinator's side of an election: what holds in every phase, whatever comes next. The stories are in
// tests/scenario/membership.
#include <algorithm>
#include <set>
#include <vector>

#include "rendezvous/membership/membership.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/election_race.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using cxxrun::test::election::decree;

namespace {

constexpr OwnTime kStart = 100'000'000;  // microseconds
constexpr Phase kPhases[] = {Phase::standby,   Phase::electing,  Phase::forming,    Phase::opening,
                             Phase::preparing, Phase::proposing, Phase::lease_wait, Phase::running,
                             Phase::stopping,  Phase::finished,  Phase::deposed};

NodeInfo node(std::string host, std::optional<std::uint32_t> index = {}, bool coordinates = false) {
  NodeInfo info;
  info.host = host;
  info.incarnation = std::move(host);
  info.node_index = index;
  info.coordinates = coordinates;
  return info;
}

FollowerInfo follower_info(std::string host, std::uint32_t rank, bool coordinates = false) {
  FollowerInfo value;
  value.node = node(std::move(host), rank, coordinates);
  value.decided = decree(1, 2);
  value.rank = rank;
  value.seen = 1;
  value.workers = true;
  return value;
}

template <class Wanted>
std::size_t count(std::vector<Action> const& actions) {
  return static_cast<std::size_t>(
      std::count_if(actions.begin(), actions.end(), [](auto const& a) { return std::holds_alternative<Wanted>(a); }));
}

template <class Wanted>
std::size_t told(std::vector<Action> const& actions) {
  return static_cast<std::size_t>(std::count_if(actions.begin(), actions.end(), [](auto const& action) {
    auto const* const tell = std::get_if<Tell>(&action);
    return tell != nullptr && std::holds_alternative<Wanted>(tell->message);
  }));
}

struct Driver {
  Policy policy;
  State state;
  TimePoint now{std::chrono::microseconds{kStart}};

  Driver() { policy.max_nodes = 2; }
  Step feed(Event const& event) {
    Step result = step(std::move(state), event, now, policy);
    state = result.next;
    return result;
  }
  OwnTime time() const { return std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count(); }
  void ack_all() {
    feed(StoreOpened{state.number, 1, 1});
    for (AgentId agent = 1; agent <= 2; ++agent) {
      feed(Said{agent, Ack{state.number, time(), 1}});
    }
  }
  void run() {
    feed(Opened{});
    feed(Joined{1, node("a", 0, true)});
    feed(Joined{2, node("b", 1)});
    ack_all();
  }
  void beat_all() {
    for (AgentId agent = 1; agent <= 2; ++agent) {
      feed(Beaten{agent, {time(), time(), 1}});
    }
  }
  void restart() {
    WorkerExit bad;
    bad.status = ExitStatus::exited(1);
    feed(Said{2, WorkerFailed{1, bad}});
    feed(Said{2, Stopped{1, {bad}, {}}});
    feed(Said{1, Stopped{1, {}, {}}});
  }
  /// A coordinator in the given phase: on standby, campaigning, or (from forming on) not elected but the first one.
  void reach(Phase phase) {
    if (phase == Phase::standby || phase == Phase::electing) {
      state.phase = Phase::standby;
      feed(FollowerCalled{1, follower_info("a", 0)});
      if (phase == Phase::electing) {
        feed(Campaign{decree(1, 2), {2, 1}, 1, {"a", "b"}, false, false});
      }
      return;
    }
    run();
    beat_all();
    switch (phase) {
      case Phase::forming:
        policy.min_nodes = 2;
        policy.max_nodes = 3;
        feed(Lost{2, "reset"});
        feed(Said{1, Stopped{1, {}, {}}});
        break;
      case Phase::opening: restart(); break;
      case Phase::preparing:
        restart();
        feed(StoreOpened{2, 1, 1});
        break;
      case Phase::proposing:
        restart();
        ack_all();
        break;
      case Phase::lease_wait:
        restart();
        ack_all();
        state.leases.outstanding[Held{1, 7}] = now + 5s;
        feed(Said{1, Accepted{1, {1, 0}, {1, 0}}});
        feed(Said{2, Accepted{1, {1, 0}, {1, 0}}});
        break;
      case Phase::stopping: feed(Lost{2, "reset"}); break;
      case Phase::finished:
        feed(Said{1, Succeeded{1}});
        feed(Said{2, Succeeded{1}});
        break;
      case Phase::deposed: feed(Said{1, Accepted{1, {1, 0}, {2, 1}}}); break;
      default: break;
    }
  }
};

std::vector<Event> every_event() {
  WorkerExit bad;
  bad.status = ExitStatus::exited(1);
  auto later = follower_info("z", 1);
  later.decided = decree(9, 2);
  auto spare = follower_info("s", 3);
  spare.rank.reset();
  AcceptedDecree const held{{1, 0}, decree(2, 2)};
  std::vector<Event> events{Opened{},
                            Joined{7, node("late")},
                            Joined{8, node("b", 1)},
                            Lost{1, "reset"},
                            Lost{2, "reset"},
                            Lost{99, "reset"},
                            StoreOpened{1, 1, 1},
                            StoreOpened{2, 1, 1},
                            StoreFailed{2, "why"},
                            Said{1, WorkerFailed{1, bad}},
                            Said{2, Leaving{15}},
                            Quit{15},
                            Wanted{Wanted::What::restart, 1, "uid 0"},
                            Wanted{Wanted::What::drain, 1, "uid 0", "b"},
                            Wanted{Wanted::What::stop, 2, "uid 0"},
                            Tick{},
                            Campaign{decree(1, 2), {2, 1}, 1, {}, false, false},
                            Campaign{decree(1, 2), {3, 1}, 1, {}, true, true},
                            Withdraw{"why"},
                            Learned{decree(9, 2), {}},
                            FollowerCalled{3, follower_info("b", 1, true)},
                            FollowerCalled{4, follower_info("a", 0)},
                            FollowerCalled{5, later},
                            FollowerCalled{6, spare},
                            BeatsEnded{1},
                            ConfirmedDead{{1, 0}},
                            ConfirmedDead{{1, 1}},
                            ConfirmedDead{{7, 7}},
                            Fenced{1, held, ""},
                            Fenced{1, {}, "why"}};
  for (AgentId const agent : {AgentId{1}, AgentId{2}, AgentId{3}, AgentId{99}}) {
    events.emplace_back(Said{agent, Ack{2, kStart, 1}});
    events.emplace_back(Said{agent, Unfit{2, "why"}});
    events.emplace_back(Said{agent, Succeeded{1}});
    events.emplace_back(Said{agent, Stopped{1, {}, {}}});
    events.emplace_back(Said{agent, Vote{1, {2, 1}, {2, 1}, {}, 1s}});
    events.emplace_back(Said{agent, Vote{1, {2, 1}, {2, 1}, held, 1s}});
    events.emplace_back(Said{agent, Vote{1, {2, 1}, {4, 0}, {}, 1s}});
    events.emplace_back(Said{agent, Accepted{1, {1, 0}, {1, 0}}});
    events.emplace_back(Said{agent, Accepted{1, {1, 0}, {2, 1}}});
    events.emplace_back(Beaten{agent, {kStart, kStart, 1}});
    events.emplace_back(Beaten{agent, {kStart, kStart * 2, 1}});  // a time that is still to come
  }
  return events;
}

/// What does not hold after a step, whatever it was; empty when all holds. One assertion for all: a pair takes
/// thousands.
std::string_view broken(Driver const& driver, Step const& result, Phase before) {
  State const& state = driver.state;
  bool const deposed_now = state.phase == Phase::deposed && before != Phase::deposed;
  bool const starts = told<rendezvous::Start>(result.actions) > 0;
  auto const lent = [&](Action const& action) {  // in place of the lease that may be lent then
    auto const* const beat = std::get_if<TellBeat>(&action);
    return beat == nullptr || beat->ack.left <= 0ms ||
           ((before == Phase::running || before == Phase::stopping) && beat->ack.left <= 4s &&
            beat->ack.number == state.number);
  };
  for (auto const& [holds, what] : std::initializer_list<std::pair<bool, std::string_view>>{
           {(state.phase == Phase::finished) == state.verdict.has_value(), "finished with a verdict"},
           {state.group.awaited <= state.group.seats.size(), "no more awaited than have a seat"},
           {state.restarts.consumed <= driver.policy.max_restarts, "no more restarts than allowed"},
           {count<SteppedDown>(result.actions) == (deposed_now ? 1U : 0U), "steps down once"},
           {before != Phase::deposed || result.actions.empty(), "silent when deposed"},
           {!starts || before != Phase::running, "starts nothing that runs"},
           {!starts || state.leases.outstanding.empty(), "starts when no lease is outstanding"},
           {!starts || state.proposer.decided.number == state.number, "starts what is decided"},
           {std::ranges::all_of(result.actions, lent), "lends authority while it runs, for 4 s"}}) {
    if (!holds) {
      return what;
    }
  }
  return "";
}

}  // namespace

TEST_CASE("election: every pair of events in every phase keeps the books, and the deposed stay silent", "[unit]") {
  auto const events = every_event();
  for (Phase const phase : kPhases) {
    Driver reached;
    reached.reach(phase);
    REQUIRE(reached.state.phase == phase);
    auto const feed = [](Driver& driver, Event const& event) {
      driver.now += 700ms;
      Phase const before = driver.state.phase;
      auto const result = driver.feed(event);
      REQUIRE(broken(driver, result, before) == "");
    };
    for (auto const& first : events) {
      Driver once = reached;
      feed(once, first);
      for (auto const& second : events) {
        Driver twice = once;
        feed(twice, second);
      }
    }
  }
}

TEST_CASE("election: a beat that echoes a time to come brings no authority", "[unit]") {
  Driver driver;
  driver.run();
  driver.now += 5s;
  driver.feed(Beaten{2, {1, driver.time() + 1, 1}});
  auto const result = driver.feed(Beaten{1, {1, driver.time() + 60'000'000, 1}});
  CHECK(std::get<TellBeat>(result.actions.front()).ack.left == 0ms);
}

TEST_CASE("election: a decree names its members in the order of their ranks", "[unit]") {
  Driver one;
  one.run();
  Driver other;
  other.feed(Opened{});
  other.feed(Joined{1, node("b", 0, true)});
  other.feed(Joined{2, node("a", 1)});
  other.ack_all();
  CHECK(one.state.proposer.decided.number == 1);
  CHECK(one.state.proposer.decided.size == 2);
  CHECK(one.state.proposer.decided.coordinator == 0);
  CHECK(one.state.proposer.decided.members != 0);
  CHECK(one.state.proposer.decided.members != other.state.proposer.decided.members);
}

TEST_CASE("election: the beats of 10,000 members are cheap", "[unit]") {
  Driver driver;
  constexpr std::uint32_t kMany = 10'000;
  driver.policy.max_nodes = kMany;
  driver.feed(Opened{});
  auto const feed = [&](Event const& event) {  // without the copy that other tests make
    Step result = step(std::move(driver.state), event, driver.now, driver.policy);
    driver.state = std::move(result.next);
    return result.actions.size();
  };
  for (std::uint32_t i = 0; i < kMany; ++i) {
    feed(Joined{i + 1, node("n" + std::to_string(i), i, i == 0)});
  }
  feed(StoreOpened{1, 1, 1});
  for (std::uint32_t i = 0; i < kMany; ++i) {
    feed(Said{i + 1, Ack{1, driver.time(), 1}});
  }
  REQUIRE(driver.state.phase == Phase::running);
  std::size_t actions = 0;
  for (std::uint32_t round = 0; round < 10; ++round) {
    for (std::uint32_t i = 0; i < kMany; ++i) {
      driver.now += 50us;
      actions += feed(Beaten{i + 1, {driver.time(), driver.time() - 1000, 1}});
    }
  }
  CHECK(actions < 10 * kMany + 10);
  CHECK(driver.state.leases.counted_at);
}

TEST_CASE("election: numbers go on above the highest that any follower has heard of", "[unit]") {
  Driver driver;
  driver.state.phase = Phase::standby;
  auto first = follower_info("a", 0, true);
  first.seen = 41;
  first.workers = false;
  driver.feed(FollowerCalled{1, first});
  driver.feed(Campaign{decree(1, 2), {2, 0}, 7, {"a", "b"}, false, false});
  driver.feed(Said{1, Vote{1, {2, 0}, {2, 0}, {}, 1s}});
  driver.now += 6s;
  auto const result = driver.feed(Tick{});
  CHECK(driver.state.phase == Phase::opening);
  CHECK(driver.state.number == 42);
  CHECK(driver.state.restarts.consumed == 0);
}

TEST_CASE("election: whoever waits here for an election that is over hears who may lead", "[unit]") {
  Driver driver;
  driver.reach(Phase::standby);
  std::vector<Successor> const successors{{0, "c", "10.0.0.3", 7}};
  auto const news = driver.feed(Learned{decree(3, 2), successors});
  Tell const expected{1, Decided{decree(3, 2), successors, false}};
  CHECK(news.actions == std::vector<Action>{expected});
  auto const late = driver.feed(FollowerCalled{5, follower_info("b", 1)});
  CHECK(late.actions == std::vector<Action>{Tell{5, expected.message}});
  auto informed = follower_info("d", 1);
  informed.decided = decree(3, 2);
  CHECK(driver.feed(FollowerCalled{6, informed}).actions.empty());
}

TEST_CASE("election: a member that calls again is asked again, whom it has promised meanwhile", "[unit]") {
  Driver driver;
  driver.policy.min_nodes = 2;
  driver.state.phase = Phase::standby;
  driver.feed(FollowerCalled{1, follower_info("a", 0, true)});
  driver.feed(Campaign{decree(1, 3), {2, 0}, 1, {"a", "b", "c"}, false, false});
  driver.feed(Said{1, Vote{1, {2, 0}, {2, 0}, {}, 1s}});
  driver.feed(FollowerCalled{2, follower_info("b", 1)});
  driver.feed(FollowerCalled{3, follower_info("c", 2)});
  driver.feed(Said{3, Vote{1, {2, 0}, {2, 2}, {}, 1s}});  // it campaigns itself
  driver.feed(Said{2, Vote{1, {2, 0}, {2, 0}, {}, 1s}});
  REQUIRE(driver.state.phase == Phase::stopping);
  CHECK(told<VoteRequest>(driver.feed(FollowerCalled{3, follower_info("c", 2)}).actions) == 1);
  driver.feed(Said{3, Vote{1, {2, 0}, {3, 2}, {}, 1s}});
  CHECK(driver.state.phase == Phase::deposed);
}

TEST_CASE("F27: a member whose vote came too late for a seat is not dropped when it tells more", "[unit]") {
  Driver driver;
  driver.policy.max_nodes = 5;
  driver.state.phase = Phase::standby;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    auto member = follower_info(std::string(1, static_cast<char>('a' + rank)), rank, rank == 0);
    member.decided = decree(1, 5);
    member.workers = false;
    driver.feed(FollowerCalled{rank + 1, member});
  }
  driver.feed(Campaign{decree(1, 5), {2, 0}, 1, {"a", "b", "c", "d", "e"}, false, false});
  for (AgentId agent = 1; agent <= 3; ++agent) {
    driver.feed(Said{agent, Vote{1, {2, 0}, {2, 0}, {}, 10s}});
  }
  auto late = follower_info("d", 3);
  late.decided = decree(1, 5);
  driver.feed(FollowerCalled{4, late});  // still in time to be asked
  driver.now += 6s;
  driver.feed(Tick{});
  REQUIRE(driver.state.phase == Phase::opening);
  late.workers = false;
  auto const again = driver.feed(FollowerCalled{4, late});
  CHECK(again.actions.empty());
  CHECK(driver.state.phase == Phase::opening);
}

TEST_CASE("F25: spares hear the successors of what is decided, not of what is being prepared", "[unit]") {
  Driver driver;
  driver.policy.max_nodes = 3;
  driver.policy.expected_nodes = 3;
  driver.feed(Opened{});
  for (std::uint32_t index = 0; index < 3; ++index) {
    auto member = node(std::string(1, static_cast<char>('a' + index)), index, index == 0);
    member.standby_port = static_cast<std::uint16_t>(100 + index);
    driver.feed(Joined{index + 1, member});
  }
  driver.ack_all();
  driver.feed(Said{3, Ack{1, driver.time(), 1}});
  REQUIRE(driver.state.phase == Phase::running);
  driver.feed(Lost{3, "reset"});
  for (AgentId agent = 1; agent <= 2; ++agent) {
    driver.feed(Said{agent, Stopped{1, {}, {}}});
  }
  REQUIRE(driver.state.phase == Phase::opening);
  auto spare = follower_info("s", 3);
  spare.decided = decree(0, 0);
  spare.rank.reset();
  auto const told_it = driver.feed(FollowerCalled{9, spare});
  auto const* const tell = std::get_if<Tell>(&told_it.actions.at(0));
  REQUIRE(tell != nullptr);
  auto const& decided = std::get<Decided>(tell->message);
  CHECK(decided.decree.number == 1);
  CHECK(decided.successors.size() == 3);
}

TEST_CASE(
    "election: a node that joins hears what is decided, so that it can look for the next coordinator, whatever the "
    "phase",
    "[unit]") {
  for (Phase const phase : {Phase::forming, Phase::opening, Phase::preparing, Phase::proposing, Phase::lease_wait,
                            Phase::running, Phase::stopping}) {
    INFO(static_cast<int>(phase));
    Driver driver;
    driver.reach(phase);
    REQUIRE(driver.state.phase == phase);
    auto const decided = driver.state.proposer.decided;
    REQUIRE(decided.number > 0);
    auto const joined = driver.feed(Joined{9, node("late")}).actions;
    auto const* const tell = std::get_if<Tell>(&joined.at(0));
    REQUIRE(tell != nullptr);
    CHECK(tell->agent == 9);
    CHECK(std::get<Decided>(tell->message).decree == decided);
  }
  Driver first;
  first.feed(Opened{});
  CHECK(told<Decided>(first.feed(Joined{1, node("a", 0, true)}).actions) == 0);
}

TEST_CASE("election: a member that has not called is in the record as lost, also when its generation never ran",
          "[unit]") {
  Driver driver;
  driver.policy.max_nodes = 5;
  driver.state.phase = Phase::standby;
  Campaign campaign;
  campaign.decided = decree(1, 5);
  campaign.ballot = {2, 1};
  campaign.hosts = {"a", "b", "c", "d", "e"};
  driver.feed(campaign);
  std::vector<std::string> lost;
  auto const feed = [&](Event const& event) {
    for (auto const& told : driver.feed(event).story) {
      if (auto const* const its = std::get_if<story::NodeLost>(&told.what)) {
        lost.push_back(its->host + " " + its->how);
      }
    }
  };
  for (std::uint32_t rank = 1; rank <= 3; ++rank) {
    auto info = follower_info(campaign.hosts[rank], rank, rank == 1);
    info.decided = campaign.decided;
    info.workers = false;
    feed(FollowerCalled{rank, info});
  }
  for (AgentId agent = 1; agent <= 3; ++agent) {
    feed(Said{agent, Vote{1, campaign.ballot, campaign.ballot, std::nullopt, Millis{0}}});
  }
  CHECK(driver.state.phase == Phase::forming);
  CHECK(lost == std::vector<std::string>{"e has not called"});  // a is the coordinator, which the stop names
}

TEST_CASE("election: a node that was added is the last to be called, whatever its rank", "[unit]") {
  Driver driver;
  driver.policy.max_nodes = 3;
  driver.policy.expected_nodes = 3;
  driver.feed(Opened{});
  AgentId agent = 0;
  for (auto member : {node("a", 0, true), node("b", 1), node("c", 2), node("added")}) {
    member.standby_port = 100;
    driver.feed(Joined{++agent, member});
  }
  driver.ack_all();
  driver.feed(Said{3, Ack{1, driver.time(), 1}});
  REQUIRE(driver.state.phase == Phase::running);
  driver.feed(Lost{2, "reset"});
  driver.feed(Said{1, Stopped{1, {}, {}}});
  driver.feed(Said{3, Stopped{1, {}, {}}});
  auto const prepared = driver.feed(StoreOpened{2, 1, 1}).actions;
  auto const* const tell = std::get_if<Tell>(&prepared.at(0));
  REQUIRE(tell != nullptr);
  std::vector<std::string> order;
  for (auto const& successor : std::get<Prepare>(tell->message).generation.successors) {
    order.push_back(successor.host + std::to_string(successor.rank));
  }
  CHECK(order == std::vector<std::string>{"a0", "c2", "added1"});
}

TEST_CASE("election: who came while another's decree was being decided looks further when the candidate gives up",
          "[unit]") {
  Driver driver;
  driver.state.phase = Phase::standby;
  auto one = follower_info("a", 0, true);
  one.decided = decree(1, 3);
  auto two = follower_info("b", 1);
  two.decided = decree(1, 3);
  driver.feed(FollowerCalled{1, one});
  driver.feed(FollowerCalled{2, two});
  driver.feed(Campaign{decree(1, 3), {2, 0}, 1, {"a", "b", "c"}, false, false});
  AcceptedDecree const held{{1, 2}, decree(2, 2)};
  driver.feed(Said{1, Vote{1, {2, 0}, {2, 0}, {}, 1s}});
  driver.feed(Said{2, Vote{1, {2, 0}, {2, 0}, held, 1s}});
  REQUIRE(driver.state.phase == Phase::proposing);
  driver.feed(Joined{7, node("late", 7)});
  REQUIRE(driver.state.roster.present.contains(7));
  auto const result = driver.feed(Withdraw{"another leads"});
  CHECK(driver.state.phase == Phase::standby);
  CHECK(driver.state.roster.present.empty());
  CHECK(std::count(result.actions.begin(), result.actions.end(), Action{HangUp{7}}) == 1);
}
