// What the test of the table for elections in docs/design/membership.md is made of: a coordinator in a phase, and the
// checks of each row.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/membership_job.hpp"

namespace cxxrun::test::election {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace,google-global-names-in-headers)

inline constexpr Ballot kOurs{2, 0};

inline Decree decree(std::uint64_t number, std::uint32_t size, Tie tie = Tie::rank) {
  Decree value;
  value.number = number;
  value.after = number - 1;
  value.size = size;
  value.tie = tie;
  return value;
}

/// A member of generation 1; agent N has the index, and the group rank, N - 1.
inline FollowerInfo member(AgentId agent, bool workers, std::uint32_t size = 3) {
  FollowerInfo value;
  value.node = node(static_cast<std::uint32_t>(agent) - 1);
  value.node.incarnation = value.node.host;
  value.decided = decree(1, size);
  value.rank = static_cast<std::uint32_t>(agent) - 1;
  value.workers = workers;
  value.begun_for = Millis{1000};
  return value;
}

inline FollowerCalled calls(AgentId agent, bool workers = true, AgentId as = 0) {
  return {as == 0 ? agent : as, member(agent, workers)};
}

inline FollowerCalled spare_calls() {
  FollowerCalled event{9, member(9, false)};
  event.follower_info.rank.reset();
  return event;
}

inline FollowerCalled later_calls() {
  FollowerCalled event{9, member(9, false)};
  event.follower_info.decided = decree(7, 3);
  return event;
}

inline Said promises(AgentId agent, Ballot to = kOurs, std::optional<AcceptedDecree> accepted = {}) {
  return {agent, Vote{1, kOurs, to, std::move(accepted), 1s}};
}

inline Campaign campaign(std::uint32_t size = 3, Ballot ballot = kOurs, Tie tie = Tie::rank) {
  return {decree(1, size, tie), ballot, 1, {}};
}

/// The coordinator inside agent 1, of three members of whom two are enough.
struct Race {
  Policy policy;
  State state;
  TimePoint now{100s};
  Step last;

  Race() {
    policy.min_nodes = 2;
    policy.max_nodes = 3;
  }
  Race& feed(Event const& event) {
    last = step(std::move(state), event, now, policy);
    state = last.next;
    return *this;
  }
  Race& pass(Millis time) {
    for (Millis passed{0}; passed < time; passed += 250ms) {
      now += 250ms;
      feed(Tick{});
    }
    return *this;
  }
  [[nodiscard]] Phase phase() const { return state.phase; }
  template <class Kind>
  [[nodiscard]] std::size_t did() const {
    return static_cast<std::size_t>(std::count_if(last.actions.begin(), last.actions.end(), [](Action const& action) {
      return std::holds_alternative<Kind>(action);
    }));
  }
  template <class Message>
  [[nodiscard]] std::size_t told() const {
    return static_cast<std::size_t>(std::count_if(last.actions.begin(), last.actions.end(), [](Action const& action) {
      auto const* const tell = std::get_if<Tell>(&action);
      return tell != nullptr && std::holds_alternative<Message>(tell->message);
    }));
  }
  [[nodiscard]] Millis lease() const {
    for (auto const& action : last.actions) {
      if (auto const* const beat = std::get_if<TellBeat>(&action)) {
        return beat->ack.left;
      }
    }
    return Millis{-1};
  }
  [[nodiscard]] OwnTime time() const {
    return std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  }
  void ready(AgentId agents) {
    feed(StoreOpened{state.number, 1, 1});
    for (AgentId agent = 1; agent <= agents; ++agent) {
      feed(Said{agent, Ack{state.number, time(), 1}});
    }
  }
};

inline Race standby() {
  Race race;
  race.state.phase = Phase::standby;
  return race;
}

inline Race electing(bool workers = true) {
  Race race = standby();
  race.feed(calls(1, workers)).feed(calls(2, workers)).feed(campaign());
  REQUIRE(race.phase() == Phase::electing);
  return race;
}

/// By two of three: it stops their workers, or waits for the third when they have none.
inline Race elected(bool workers) {
  Race race = electing(workers);
  race.feed(promises(1)).feed(promises(2));
  REQUIRE(race.phase() == (workers ? Phase::stopping : Phase::forming));
  return race;
}

/// By exactly half, with a fence, and about to claim it.
inline Race claiming() {
  Race race = standby();
  race.policy.tie = Tie::fence;
  race.feed(calls(1, false)).feed(calls(2, false)).feed(campaign(4, kOurs, Tie::fence));
  race.feed(promises(1)).feed(promises(2)).pass(race.policy.rejoin_window);
  REQUIRE(race.phase() == Phase::opening);
  race.ready(2);
  REQUIRE(race.phase() == Phase::proposing);
  REQUIRE(race.state.proposer.stage == Stage::claiming);
  return race;
}

/// The one that coordinates from the first generation on.
inline Race appointed(Phase phase) {
  Race race;
  race.feed(Opened{});
  for (AgentId agent = 1; agent <= 3; ++agent) {
    race.feed(Joined{agent, member(agent, false).node});
  }
  race.ready(3);
  for (AgentId agent = 1; agent <= 3; ++agent) {
    race.feed(Beaten{agent, {race.time(), race.time(), 1}});
  }
  if (phase != Phase::running) {
    WorkerExit bad;
    bad.status = ExitStatus::exited(1);
    race.feed(Said{2, WorkerFailed{1, bad}});
    for (AgentId agent = 1; agent <= 3; ++agent) {
      race.feed(Said{agent, Stopped{1, {}, {}}});
    }
  }
  if (phase == Phase::proposing) {
    race.ready(3);
  }
  REQUIRE(race.phase() == phase);
  return race;
}

/// What the cell says, and its check. No check: the page names it.
struct Told {
  std::string text;
  std::function<void()> check = [] {};
};
using Cells = std::vector<Told>;

/// Nothing happens: no action, and the phase stays.
inline std::function<void()> ignored(std::function<Race()> from, Event const& event) {
  return [from = std::move(from), event] {
    Race race = from();
    Phase const before = race.phase();
    race.feed(event);
    CHECK(race.phase() == before);
    CHECK(race.last.actions.empty());
  };
}

inline std::function<void()> leads_to(std::function<Race()> from, std::vector<Event> const& events, Phase phase) {
  return [from = std::move(from), events, phase] {
    Race race = from();
    for (auto const& event : events) {
      race.feed(event);
    }
    CHECK(race.phase() == phase);
  };
}

inline Race running() {
  return appointed(Phase::running);
}
inline Race opening() {
  return appointed(Phase::opening);
}
inline Race proposing() {
  return appointed(Phase::proposing);
}

// One per row, in the order of the table.
Cells campaigns();
Cells withdraws();
Cells learns();
Cells member_calls();
Cells later_decision();
Cells spare();
Cells promised();
Cells higher_promise();
Cells accepted();
Cells fence();
Cells death_notice();
Cells beat();
Cells beats_ended();
Cells silent();
Cells too_few_votes();
Cells no_authority();

}  // namespace cxxrun::test::election
