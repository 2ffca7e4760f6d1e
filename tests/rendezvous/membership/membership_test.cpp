#include "rendezvous/membership/membership.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "rendezvous/membership/cause.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/said.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

NodeInfo node(std::string host, std::optional<std::uint32_t> index = {}, bool coordinates = false) {
  NodeInfo info;
  info.host = std::move(host);
  info.node_index = index;
  info.coordinates = coordinates;
  info.reached_at = "127.0.0.1";
  return info;
}

std::vector<AgentId> order(std::vector<Seat> const& seats) {
  std::vector<AgentId> agents;
  for (auto const& seat : seats) {
    agents.push_back(seat.agent);
  }
  return agents;
}

WorkerExit exit_of(std::uint32_t rank, ExitStatus status, Role role = Role::culprit, std::string told = "") {
  WorkerExit exit;
  exit.rank = rank;
  exit.status = status;
  exit.role = role;
  exit.told = std::move(told);
  return exit;
}

/// Drives `count` nodes of one worker each to a running generation.
struct Driver {
  Policy policy;
  State state;
  std::size_t actions = 0;
  Step feed(Event const& event, TimePoint now = {}) {
    Step result = step(std::move(state), event, now, policy);
    state = std::move(result.next);
    actions += result.actions.size();
    return result;
  }
  void run(std::uint32_t count) {
    policy.min_nodes = policy.max_nodes = count;
    feed(Opened{});
    for (std::uint32_t i = 0; i < count; ++i) {
      feed(Joined{i + 1, node("n" + std::to_string(i), i, i == 0)});
    }
    answer_prepare();
  }
  void answer_prepare() {
    feed(StoreOpened{state.number, 29500, 29500});
    for (AgentId const agent : order(state.group.seats)) {
      feed(Said{agent, Ack{state.number}});
    }
  }
};

/// Every sequence of so many events, an hour apart. What several begin with is taken once.
void take_each(Driver const& from, std::vector<Event> const& events, TimePoint now, int length) {
  for (auto const& event : events) {
    Driver driver = from;
    driver.feed(event, now);
    auto const& state = driver.state;
    REQUIRE((state.phase == Phase::finished) == state.verdict.has_value());
    REQUIRE(state.group.awaited <= state.group.seats.size());
    REQUIRE(state.restarts.consumed <= driver.policy.max_restarts);
    if (length > 1) {
      take_each(driver, events, now + 1h, length - 1);
    }
  }
}

}  // namespace

TEST_CASE("membership: 10,000 nodes join, run, lose one and are told, in linear work", "[unit]") {
  Driver driver;
  driver.run(10'000);
  REQUIRE(driver.state.phase == Phase::running);
  // join: nothing to say; then one store, 10,000 prepares and 10,000 starts
  CHECK(driver.actions < 2 * 10'000 + 20);
  auto const step = driver.feed(Lost{5000, "reset"});
  CHECK(step.actions.size() < 10'000 + 5);
  CHECK(driver.state.phase == Phase::stopping);
}

TEST_CASE("membership: the restart count never exceeds the budget and the number never repeats", "[unit]") {
  Driver driver;
  driver.policy.max_restarts = 2;
  driver.policy.restart_delay = 0s;
  driver.run(2);
  std::set<std::uint64_t> numbers;
  for (int failures = 0; driver.state.phase == Phase::running; ++failures) {
    REQUIRE(failures <= 2);
    REQUIRE(numbers.insert(driver.state.number).second);
    REQUIRE(driver.state.restarts.consumed == static_cast<std::uint32_t>(failures));
    auto const exit = exit_of(0, ExitStatus::exited(5));
    driver.feed(Said{1, WorkerFailed{driver.state.number, exit}});
    driver.feed(Said{1, Stopped{driver.state.number, {exit}, {}}});
    driver.feed(Said{2, Stopped{driver.state.number, {}, {}}});
    if (driver.state.phase == Phase::opening) {
      driver.answer_prepare();
    }
  }
  REQUIRE(driver.state.verdict);
  CHECK(driver.state.verdict->exit_code == 5);
  CHECK(numbers.size() == 3);
}

TEST_CASE("membership: a node whose workers have ended with 0 is told of after some seconds, in one line", "[unit]") {
  Driver driver;
  driver.policy.heartbeat_timeout = Millis{0};
  driver.run(4);
  driver.feed(Said{2, Succeeded{1}});
  CHECK(text_of(driver.feed(Tick{}, TimePoint{} + 5s).said).empty());
  driver.feed(Said{4, Progress{1, {}, {}, {3, 77}}}, TimePoint{} + 5s);  // 77 is no rank of that node
  CHECK(text_of(driver.feed(Tick{}, TimePoint{} + 6s).said).find("have ended with exit code 0, and 2 others go on") !=
        std::string::npos);
  CHECK(text_of(driver.feed(Tick{}, TimePoint{} + 60s).said).empty());
}

TEST_CASE("membership: all are told whose failure was the first, and of a success that there was none", "[unit]") {
  auto const first = [](Step const& step) {
    std::vector<std::optional<std::uint32_t>> told;
    for (auto const& action : step.actions) {
      auto const* const tell = std::get_if<Tell>(&action);
      auto const* const finished = tell == nullptr ? nullptr : std::get_if<Finished>(&tell->message);
      if (finished != nullptr) {
        told.push_back(finished->first_failure);
      }
    }
    return told;
  };
  Driver failed;
  failed.policy.max_restarts = 0;
  failed.run(2);
  auto const exit = exit_of(1, ExitStatus::exited(5));
  failed.feed(Said{2, WorkerFailed{1, exit}});
  failed.feed(Said{1, Stopped{1, {}, {}}});
  CHECK(first(failed.feed(Said{2, Stopped{1, {exit}, {}}})) == std::vector<std::optional<std::uint32_t>>{1, 1});
  Driver good;
  good.run(1);
  CHECK(first(good.feed(Said{1, Succeeded{1}})) == std::vector<std::optional<std::uint32_t>>{std::nullopt});
}

TEST_CASE("membership: it closes once, whoever leaves or calls after that", "[unit]") {
  Driver driver;
  driver.policy.linger = 1s;
  driver.run(2);
  driver.feed(Said{1, Succeeded{1}});
  driver.feed(Said{2, Succeeded{1}});
  REQUIRE(driver.state.phase == Phase::finished);
  std::size_t closed = 0;
  std::vector<Event> const events{Tick{},
                                  Tick{},
                                  Lost{1, "end of file", Ended::goodbye},
                                  Lost{2, "end of file", Ended::goodbye},
                                  Joined{3, node("n")},
                                  Tick{}};
  for (auto const& event : events) {
    auto const actions = driver.feed(event, TimePoint{} + 1s).actions;
    closed += static_cast<std::size_t>(std::count(actions.begin(), actions.end(), Action{Close{}}));
  }
  CHECK(closed == 1);
}

TEST_CASE("membership: every event in every phase has an answer that keeps the books", "[unit]") {
  auto const bad = exit_of(0, ExitStatus::exited(1));
  std::vector<Event> const events{Opened{},
                                  Joined{7, node("late")},
                                  Lost{1, "reset"},
                                  Lost{2, "reset"},
                                  Lost{99, "reset"},
                                  StoreOpened{1, 1, 1},
                                  StoreFailed{1, "why"},
                                  Said{1, Ack{1}},
                                  Said{2, WorkerFailed{1, bad}},
                                  Said{2, Succeeded{1}},
                                  Said{1, Stopped{1, {}, {}}},
                                  Said{2, Stopped{1, {bad}, {"pid 1"}}},
                                  Said{1, Leaving{15}},
                                  Said{2, Leaving{15}},
                                  Said{99, Leaving{15}},
                                  Said{1, Unfit{1, "why"}},
                                  Said{1, Progress{1, {{0, 2, 1, 0, 25, 60s, false}}}},
                                  Said{2, Unfit{0, "why"}},
                                  Said{99, Ack{1}},
                                  Said{1, Ack{0}},
                                  Quit{15},
                                  Wanted{Wanted::What::restart, 1, "uid 0"},
                                  Wanted{Wanted::What::drain, 1, "uid 0", "b"},
                                  Tick{}};
  for (int reached = 0; reached < 5; ++reached) {  // each phase of a job of two nodes
    Driver driver;
    driver.policy.min_nodes = 1;
    driver.policy.max_nodes = 2;
    driver.policy.heartbeat_timeout = 0ms;  // with leases and votes: membership_election_test.cpp
    driver.feed(Opened{});
    driver.feed(Joined{1, node("a", 0, true)});
    if (reached >= 1) {
      driver.feed(Joined{2, node("b", 1)});
    }
    if (reached >= 2) {
      driver.feed(StoreOpened{1, 1, 1});
    }
    if (reached >= 3) {
      driver.feed(Said{1, Ack{1}});
      driver.feed(Said{2, Ack{1}});
    }
    if (reached >= 4) {
      driver.feed(Said{2, WorkerFailed{1, bad}});
    }
    take_each(driver, events, TimePoint{} + 1h, 3);
  }
}

TEST_CASE("cause: a death by signal is preferred to the error it caused, and a lost node to both", "[unit]") {
  Driver driver;
  driver.run(2);
  auto const victim = exit_of(0, ExitStatus::exited(1));
  auto culprit = exit_of(1, ExitStatus::signalled(9));
  culprit.cause = "from outside";
  State state = driver.state;
  state.group.reports = {Report{0, victim}, Report{1, culprit}};
  state.group.seats[0].exits = {victim};
  state.group.seats[1].exits = {culprit};
  auto const ruling = rule(state, driver.policy, {});
  CHECK(ruling.next == Ruling::Next::restart);
  CHECK(ruling.line == "rank 1 on n1: signal 9 (SIGKILL): from outside");

  state.group.seats[1].now = Seat::Now::lost;
  CHECK(rule(state, driver.policy, {}).next == Ruling::Next::reform);
}

TEST_CASE("membership: who told a node to end is part of why, in one line and not much of it", "[unit]") {
  Driver driver;
  driver.run(2);
  driver.feed(Said{2, Leaving{15, "from pid 7 (kill), uid 0\ncxxrun: " + std::string(5000, 'x')}});
  auto const& why = driver.state.group.stop.why;
  CHECK(why.starts_with("n1 was told to end by SIGTERM from pid 7 (kill), uid 0?cxxrun: xxx"));
  CHECK(why.size() < 200);
}

TEST_CASE("cause: a worker that we stopped ourselves is no failure", "[unit]") {
  Driver driver;
  driver.run(2);
  auto ours = exit_of(0, ExitStatus::signalled(15));
  ours.ours = true;
  driver.state.group.seats[0].exits = {ours};
  CHECK(failures_of(driver.state.group).empty());
}

TEST_CASE("cause: who says why is preferred to who says that it failed of another one, whoever is heard of first",
          "[unit]") {
  // From the top down: each is the cause beside all below it, although it is heard of last.
  std::vector<WorkerExit> const ranking{
      exit_of(0, ExitStatus::not_started(2)),
      exit_of(0, ExitStatus::signalled(9)),
      exit_of(0, ExitStatus::exited(1), Role::culprit, "ValueError: no data"),
      exit_of(0, ExitStatus::signalled(11)),
      exit_of(0, ExitStatus::exited(3)),
      exit_of(0, ExitStatus::signalled(6), Role::waited, "Watchdog caught collective operation timeout: …"),
      exit_of(0, ExitStatus::exited(1), Role::lost_peer, "RuntimeError: Connection closed by peer [10.0.0.2]:4711"),
      exit_of(0, ExitStatus::signalled(15), Role::told_to_end, "SignalException: Process 7 got signal: 15"),
  };
  for (std::size_t cause = 0; cause < ranking.size(); ++cause) {
    Driver driver;
    driver.run(2);
    auto& group = driver.state.group;
    for (std::size_t i = ranking.size(); i > cause; --i) {
      WorkerExit exit = ranking[i - 1];
      exit.rank = static_cast<std::uint32_t>(i);
      group.reports.push_back(Report{1, exit});
      group.seats[1].exits.push_back(exit);
    }
    CHECK(failures_of(group).front().exit.rank == cause + 1);
  }
}

TEST_CASE("cause: with victims alone, a worker that failed of itself during the stop is the cause", "[unit]") {
  Driver driver;
  driver.run(2);
  auto& group = driver.state.group;
  auto const victim =
      exit_of(0, ExitStatus::exited(1), Role::lost_peer, "RuntimeError: Connection closed by peer [10.0.0.2]:4711");
  auto culprit = exit_of(1, ExitStatus::exited(1));
  culprit.ours = true;
  WorkerExit silent = culprit;
  silent.rank = 2;
  culprit.told = "ValueError: no data";
  group.reports = {Report{0, victim}};
  group.seats[0].exits = {victim};
  group.seats[1].exits = {culprit, silent};
  CHECK(rule(driver.state, driver.policy, {}).line == "rank 1 on n1: was failing when it was stopped, exit code 1");
  CHECK(failures_of(group).size() == 2);
  auto const verdict = make_verdict(driver.state, driver.policy, End::worker_failed, 3, "");
  CHECK(verdict.stopped == std::map<std::string, std::uint32_t>{{"exit code 1, asked to end by cxxrun", 1}});
  driver.policy.max_restarts = 0;
  group.seats[1].exits.front().status = ExitStatus::signalled(15);
  CHECK(rule(driver.state, driver.policy, {}).verdict.exit_code == 1);  // SIGTERM was ours

  group.seats[1].exits = {silent};  // that our stop explains
  CHECK(rule(driver.state, driver.policy, {}).line == "rank 0 on n0: exit code 1");
  group.seats[0].exits.front().role = Role::culprit;
  group.seats[1].exits = {culprit};
  CHECK(failures_of(group).size() == 1);
  group.seats[0].exits.clear();  // nodes came: no worker has failed
  group.reports.clear();
  CHECK(failures_of(group).empty());
}

TEST_CASE("membership: every change of phase is a line for the log, of one step in one place", "[unit]") {
  Driver driver;
  std::string said;
  auto const feed = [&](Event const& event) {
    for (auto const& line : driver.feed(event).said) {
      if (line.level == Level::debug) {
        said += line.text + "\n";
      }
    }
  };
  driver.policy.heartbeat_timeout = 0ms;  // nobody votes
  driver.policy.max_nodes = 1;
  driver.policy.max_restarts = 0;
  feed(Opened{});
  feed(Joined{1, node("n0", 0, true)});
  feed(StoreOpened{1, 29500, 29500});
  feed(Said{1, Ack{1}});
  auto const bad = exit_of(0, ExitStatus::exited(1));
  feed(Said{1, WorkerFailed{1, bad}});
  feed(Said{1, Stopped{1, {bad}, {}}});
  CHECK(said ==
        "generation 1: forming -> opening\n"
        "generation 1: opening -> preparing\n"
        "generation 1: preparing -> lease_wait\n"
        "generation 1: lease_wait -> running\n"
        "generation 1: running -> stopping (failure)\n"
        "generation 1: stopping -> finished (worker failed)\n");
}

TEST_CASE("cause: whom the victims name is the cause, however the stop found it", "[unit]") {
  Driver driver;
  driver.run(2);
  driver.policy.max_restarts = 0;
  auto& group = driver.state.group;
  auto victim = exit_of(0, ExitStatus::exited(75), Role::lost_peer);
  victim.lost = worker::Loss{1, PeerFailure::Why::left};
  auto culprit = exit_of(1, ExitStatus::exited(4));
  culprit.ours = true;
  auto other = culprit;
  other.rank = 2;
  group.reports = {Report{0, victim}};
  group.seats[0].exits = {victim};
  group.seats[1].exits = {culprit, other};
  CHECK(rule(driver.state, driver.policy, {}).line == "rank 1 on n1: was failing when it was stopped, exit code 4");
  CHECK(failures_of(group).size() == 2);

  group.seats[1].exits = {exit_of(1, ExitStatus::exited(0)), other};  // and no worker was asked
  auto const verdict = rule(driver.state, driver.policy, {}).verdict;
  CHECK(verdict.summary == "rank 1 on n1 ended while others still called");
  CHECK(verdict.exit_code == 1);
  CHECK(verdict.failures.size() == 2);

  group.seats[0].exits.front().lost.reset();  // ended, with words alone: it blames no rank
  group.reports = {Report{0, group.seats[0].exits.front()}};
  CHECK(failures_of(group).size() == 1);

  auto missed = group.seats[1].exits.front();  // its agent was asked
  missed.hung = "left while 3 others still called";
  group.reports = {Report{1, missed}, Report{0, victim}};
  CHECK(rule(driver.state, driver.policy, {}).line == "rank 1 on n1 left while 3 others still called");
}

TEST_CASE("cause: those that cxxrun stopped are counted by how they ended", "[unit]") {
  Driver driver;
  driver.run(2);
  auto ours = exit_of(0, ExitStatus::signalled(15));
  ours.ours = true;
  auto asked = ours;
  asked.status = ExitStatus::exited(0);
  auto const failed = exit_of(0, ExitStatus::exited(3));
  driver.state.group.seats[0].exits = {ours, failed, ours};
  driver.state.group.seats[1].exits = {asked};
  auto const verdict = make_verdict(driver.state, driver.policy, End::worker_failed, 3, "");
  CHECK(verdict.stopped ==
        std::map<std::string, std::uint32_t>{{"SIGTERM by cxxrun", 2}, {"exit code 0, asked to end by cxxrun", 1}});
}
