// Traces: jobs with their trouble by hand, for what random schedules seldom reach.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/job.hpp"
#include "tests/support/sanitized.hpp"

namespace cxxrun::simulation {

inline constexpr Micros kT = 1'000'000;
inline constexpr int kPlays = test::kSanitized ? 10 : 200;  ///< of trouble that changes nothing

inline Schedule job_of(std::uint32_t nodes, std::vector<Fault> faults) {
  Schedule schedule;
  schedule.nodes = nodes;
  auto& policy = schedule.policy;
  policy.min_nodes = 1;
  policy.max_nodes = nodes;
  policy.heartbeat_timeout = Millis{1000};
  policy.join_window = policy.rejoin_window = Millis{500};
  policy.join_timeout = Millis{10'000};
  policy.ack_timeout = Millis{2000};
  policy.stop_timeout = Millis{6000};
  policy.linger = Millis{1000};
  schedule.agent = agent_policy(schedule);
  for (auto const& fault : faults) {
    schedule.trouble_ends = std::max(schedule.trouble_ends, fault.at + fault.lasts);
  }
  schedule.faults = std::move(faults);
  schedule.work = kT;
  schedule.bound = schedule.trouble_ends + 150 * kT;
  return schedule;
}

/// What is to be seen at a job's end that broke no rule: "" or what is wrong.
using Look = std::function<std::string(Job const&)>;

/// One job: "" or what broke.
inline std::string play_one(Schedule schedule, int seed, Look const& look) {
  schedule.seed = static_cast<std::uint64_t>(seed);
  Job job(std::move(schedule));
  auto broken = job.run();
  broken = broken.empty() ? look(job) : broken;
  return broken.empty() ? "" : "seed " + std::to_string(seed) + ": " + broken;
}

/// The same trouble with many delays: "" or what broke first.
inline std::string play_many(Schedule const& schedule, int times, Look const& look) {
  std::string broken;
  for (int seed = 1; seed <= times && broken.empty(); ++seed) {
    broken = play_one(schedule, seed, look);
  }
  return broken;
}

inline std::string play(Schedule schedule, Mutation mutation = Mutation::none) {
  schedule.mutation = mutation;
  int const times = mutation == Mutation::none ? kPlays : 200;  // that of a mutation is found in some
  return play_many(schedule, times, [](Job const&) { return ""; });
}

/// An agent sleeps a little, too little to be called suspended, with an answer to its beat waiting; then its host is
/// cut off, and nobody hears of it any more. Whoever counts from the receipt of that answer has workers for too long.
inline Schedule late_answer() {
  auto schedule = job_of(
      3, {{2 * kT + 50'000, Trouble::agent_freezes, kT * 47 / 100, 2}, {2 * kT + 80'000, Trouble::cut_off, 5 * kT, 2}});
  schedule.policy.rejoin_window = Millis{10};
  schedule.most_delay = 10'000;
  return schedule;
}

/// Two nodes, and (in some seeds) a firewall between them that resets what is sent and refuses who calls. A worker of
/// the second one fails: telling so ends the connection, and the port is refused, although the first one lives.
inline Schedule firewalled() {
  return job_of(2, {{2 * kT, Trouble::cut_off, 3 * kT, 0}, {2 * kT + 50'000, Trouble::worker_fails, 0, 1}});
}

/// The first of four nodes is lost, and messages take so long that two promises often come well before the third: a
/// candidate that does not wait for it forms a generation without a healthy node.
inline Schedule late_promise() {
  auto schedule = job_of(4, {{2 * kT, Trouble::both_die, 0, 0}});
  schedule.policy.tie = schedule.agent.tie = rendezvous::Tie::fence;
  schedule.policy.min_nodes = 2;
  schedule.policy.rejoin_window = Millis{10};
  schedule.most_delay = 50'000;
  return schedule;
}

/// Most of five nodes are told to end, the later ones while the generation without the first is being made.
inline Schedule most_are_told() {
  return job_of(5, {{2 * kT, Trouble::told_to_end, 0, 1},
                    {2 * kT, Trouble::told_to_end, 0, 2},
                    {2 * kT, Trouble::told_to_end, 0, 3}});
}

/// The first node is lost, one of the two others coordinates with group rank 1, and the one with rank 0 is told to end.
inline Schedule rank_0_is_told() {
  auto schedule = job_of(3, {{2 * kT, Trouble::both_die, 0, 0}, {6 * kT, Trouble::told_to_end, 0, 2}});
  schedule.policy.expected_nodes = 3;  // so that their ranks are their indices
  return schedule;
}

/// The network resets connections, and nothing else: in many seeds those of several members, in some of all.
inline Schedule resets(std::uint32_t nodes) {
  return job_of(nodes, {{2 * kT, Trouble::connections_die, 0, {}}});
}

inline std::string no_success(Job const& job) {
  return job.judge.ends.contains("verdict: success") ? "" : "no success";
}

/// A job that goes on in spite of its trouble.
inline std::string succeed(Schedule const& schedule) {
  return play_many(schedule, kPlays, no_success);
}

/// Nobody is lost on the way, either, if there is time to come back.
inline std::string stay(Schedule schedule) {
  schedule.work = 60 * kT;
  return play_many(schedule, kPlays, [](Job const& job) {
    std::string wrong;
    for (auto const& [end, count] : job.judge.ends) {
      wrong += end == "verdict: success" || end == "agent left with 0" ? "" : std::to_string(count) + " " + end + "; ";
    }
    return wrong;
  });
}

/// Nodes are told to end, each time a little later after the first: "" or what became of a job that goes on without
/// them.
inline std::string shrink(Schedule const& drawn) {
  for (int seed = 1; seed <= kPlays; ++seed) {
    auto schedule = drawn;
    Micros later = 0;
    for (auto& fault : schedule.faults) {
      fault.at += fault.trouble == Trouble::told_to_end ? later : 0;
      later += seed * 3'000;
    }
    if (auto broken = play_one(schedule, seed, no_success); !broken.empty()) {
      return broken;
    }
  }
  return "";
}

/// scontrol suspend, and nothing else.
inline Schedule suspended() {
  auto schedule = job_of(3, {{2 * kT, Trouble::job_freezes, 40 * kT, {}}});
  schedule.only_suspended = true;
  return schedule;
}

}  // namespace cxxrun::simulation
