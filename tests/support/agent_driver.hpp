// An agent's state machine for tests: one of five nodes, with heartbeats, that has joined on the first link.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/life/agent_state.hpp"
#include "tests/support/said.hpp"

namespace cxxrun::launcher::agent::testing {

namespace rdzv = cxxrun::rendezvous;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace,google-global-names-in-headers)

inline constexpr std::uint32_t kNodes = 5;

inline rdzv::Successor successor(std::uint32_t rank) {
  return {rank, "node" + std::to_string(rank), "10.0.0." + std::to_string(rank), 7000};
}

inline rdzv::Decree decree(std::uint64_t after, std::uint64_t number, std::uint32_t coordinator = 0) {
  rdzv::Decree value;
  value.after = after;
  value.number = number;
  value.size = kNodes;
  value.coordinator = coordinator;
  value.members = 77;
  return value;
}

inline rdzv::Generation generation(std::uint64_t number, std::uint32_t rank) {
  rdzv::Generation value;
  value.number = number;
  value.group_rank = rank;
  value.group_size = kNodes;
  value.local_size = 1;
  for (std::uint32_t i = 0; i < kNodes; ++i) {
    value.successors.push_back(successor(i));
  }
  value.decree = decree(number - 1, number);
  value.coordinator = "c0";
  value.survives = true;
  value.hosts = "node[0-4]";
  return value;
}

inline rdzv::WorkerExit killed_exit() {
  rdzv::WorkerExit exit;
  exit.status = ExitStatus::signalled(9);
  exit.ours = true;
  return exit;
}

struct Driver {
  explicit Driver(std::uint32_t own_rank = 2) : rank(own_rank) {
    policy.lease = {5000ms, 4000ms, 500ms, 950ms, 5000ms};
    feed(LinkUp{kFirstLink, "c0"});
  }

  std::vector<Action> feed(Event const& event) {
    ticked = std::holds_alternative<Tick>(event);
    Step result = step(std::move(state), event, now, policy);
    state = std::move(result.next);
    reason = text_of(result.said);
    return actions = std::move(result.actions);
  }
  std::vector<Action> hear(rdzv::ToAgent message, LinkId link = kFirstLink) {
    return feed(FromLink{link, std::move(message)});
  }
  std::vector<Action> answer(rdzv::OwnTime echo, Millis left, std::uint64_t number, LinkId link = kFirstLink) {
    return feed(BeatAnswered{link, rdzv::BeatAck{echo, ++coordinator_clock, left, number}});
  }
  [[nodiscard]] rdzv::OwnTime own() const { return rdzv::own_time(now); }

  /// Rings the timer whenever it is due, up to `until`. The actions of all ticks.
  std::vector<Action> pass(Millis duration) {
    TimePoint const until = now + duration;
    std::vector<Action> all;
    while (state.armed && *state.armed <= until && state.life != Life::done) {
      now = *state.armed;
      for (auto& action : feed(Tick{})) {
        all.push_back(std::move(action));
      }
    }
    now = until;
    return actions = all;
  }
  /// The same with a coordinator that answers every beat at once.
  void pass_answered(Millis duration, std::uint64_t number) {
    TimePoint const until = now + duration;
    while (now < until) {
      auto const ticks = pass(100ms);
      for (auto const& action : ticks) {
        if (auto const* beat = std::get_if<TellBeat>(&action)) {
          answer(beat->beat.sent, 4000ms, number, beat->link);
        }
      }
    }
  }
  Driver& run(std::uint64_t number = 1) {
    hear(rdzv::Prepare{generation(number, rank), 100});
    hear(rdzv::Start{number, own(), 4000ms});
    return *this;
  }
  Driver& lose() {
    feed(LinkDown{kFirstLink, "end of file", rdzv::Ended::in_order});
    return *this;
  }
  /// Nobody listens any more where the coordinator was.
  Driver& gone() {
    feed(LinkFailed{state.follower.recall->link, "refused", true});
    return *this;
  }
  /// The link that was dialled to this successor; 0: none.
  [[nodiscard]] LinkId link_to(std::uint32_t to) const {
    for (auto const& [id, link] : state.follower.links) {
      if (link.dialled && link.to == successor(to)) {
        return id;
      }
    }
    return 0;
  }
  std::vector<Action> up(std::uint32_t to) { return feed(LinkUp{link_to(to), "c" + std::to_string(to)}); }

  template <class Wanted>
  [[nodiscard]] std::vector<Wanted> all() const {
    std::vector<Wanted> found;
    for (auto const& action : actions) {
      if (auto const* wanted = std::get_if<Wanted>(&action)) {
        found.push_back(*wanted);
      }
    }
    return found;
  }
  /// Messages of this type on any link.
  template <class Wanted>
  [[nodiscard]] std::vector<Wanted> told() const {
    std::vector<Wanted> found;
    for (auto const& action : actions) {
      auto const* const tell = std::get_if<TellLink>(&action);
      if (tell != nullptr && std::holds_alternative<Wanted>(tell->message)) {
        found.push_back(std::get<Wanted>(tell->message));
      }
    }
    return found;
  }
  [[nodiscard]] bool kills() const {
    for (auto const& stop : all<StopWorkers>()) {
      if (stop.order.signal == 9 && stop.order.grace == 0ms) {
        return true;
      }
    }
    return false;
  }

  std::uint32_t rank;
  Policy policy;
  State state;
  TimePoint now = TimePoint{} + 1h;
  std::string reason;
  bool ticked = false;  ///< the last event was the timer
  std::vector<Action> actions;
  rdzv::OwnTime coordinator_clock = 1000;
};

}  // namespace cxxrun::launcher::agent::testing
