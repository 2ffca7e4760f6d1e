// What the test of the table in docs/design/membership.md is made of: a job in a phase, and the checks of each row.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/membership.hpp"
#include "tests/support/catch.hpp"

namespace cxxrun::test {

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace): the unit under test

inline NodeInfo node(std::uint32_t index) {
  NodeInfo info;
  info.host = "n" + std::to_string(index);
  info.node_index = index;
  info.coordinates = index == 0;
  info.reached_at = "127.0.0.1";
  return info;
}

/// Agents 1 (which hosts) and 2 of a job of one to two nodes, brought to a phase. Agent N has the index N - 1.
struct Job {
  Policy policy;
  State state;
  TimePoint now{};
  Step last;

  explicit Job(Phase phase, bool spare = false, bool unhosted = false) {
    policy.max_nodes = 2;
    policy.heartbeat_timeout = Millis{0};  // no votes: those are in docs/design/election.md
    policy.ends_when_empty = unhosted;
    feed(Opened{});
    join(1, unhosted);
    if (phase == Phase::forming) {
      return;
    }
    join(2, unhosted);
    if (spare) {
      join(3, unhosted);
    }
    if (phase >= Phase::preparing) {
      feed(StoreOpened{1, 1, 1});
    }
    if (phase >= Phase::running) {
      feed(Said{1, Ack{1}});
      feed(Said{2, Ack{1}});
    }
    if (phase == Phase::stopping) {
      feed(Said{2, WorkerFailed{1, failure()}});
    } else if (phase == Phase::finished) {
      feed(Said{1, Succeeded{1}});
      feed(Said{2, Succeeded{1}});
    }
    REQUIRE(state.phase == phase);
  }
  void feed(Event const& event) {
    last = step(std::move(state), event, now, policy);
    state = last.next;
  }
  void join(AgentId agent, bool unhosted = false, std::optional<std::uint32_t> index = {}) {
    NodeInfo info = node(index.value_or(static_cast<std::uint32_t>(agent) - 1));
    info.coordinates = info.coordinates && !unhosted;
    feed(Joined{agent, info});
  }
  /// Starts the generation that is being formed.
  void go() {
    REQUIRE(state.phase == Phase::opening);
    feed(StoreOpened{state.number, 1, 1});
    for (AgentId const agent : members()) {
      feed(Said{agent, Ack{state.number}});
    }
    REQUIRE(state.phase == Phase::running);
  }
  [[nodiscard]] std::vector<AgentId> members() const {
    std::vector<AgentId> agents;
    for (auto const& seat : state.group.seats) {
      agents.push_back(seat.agent);
    }
    return agents;
  }
  void stop_all() {
    feed(Said{1, Stopped{state.number, {}, {}}});
    feed(Said{2, Stopped{state.number, {}, {}}});
  }
  static WorkerExit failure() {
    WorkerExit exit;
    exit.rank = 1;
    exit.status = ExitStatus::exited(3);
    return exit;
  }
  template <class Message>
  [[nodiscard]] Message const* told(AgentId agent) const {
    for (auto const& action : last.actions) {
      auto const* const tell = std::get_if<Tell>(&action);
      if (tell != nullptr && tell->agent == agent && std::holds_alternative<Message>(tell->message)) {
        return &std::get<Message>(tell->message);
      }
    }
    return nullptr;
  }
  template <class Kind>
  [[nodiscard]] bool did() const {
    return std::any_of(last.actions.begin(), last.actions.end(),
                       [](Action const& action) { return std::holds_alternative<Kind>(action); });
  }
  [[nodiscard]] bool in(Phase phase, std::uint64_t number) const {
    return state.phase == phase && state.number == number;
  }
  [[nodiscard]] bool ended(End end) const { return state.verdict && state.verdict->end == end; }
  [[nodiscard]] bool stops(StopKind kind) const {
    return state.phase == Phase::stopping && state.group.stop.kind == kind;
  }
};

struct Cell {
  std::string text;  ///< as in docs
  std::function<void(Phase)> check;
};
using Row = std::map<std::string, Cell>;

/// The event is of no consequence in this phase.
inline Cell nothing(std::function<Event(Job const&)> const& event, bool spare = false) {
  return {"–", [event, spare](Phase phase) {
            Job job(phase, spare);
            auto const number = job.state.number;
            job.feed(event(job));
            CHECK(job.in(phase, number));
            CHECK(job.last.actions.empty());
          }};
}

// One per row, in the order of the table.
Row joins();
Row complete_again();
Row member_lost();
Row refused();
Row spare_lost();
Row store();
Row ack();
Row unfit();
Row failed();
Row progress();
Row succeeded();
Row stopped();
Row told_to_end();
Row coordinator_told_to_end();
Row wanted();
Row abandoned();
Row timer();
Row of_another_generation();

}  // namespace cxxrun::test
