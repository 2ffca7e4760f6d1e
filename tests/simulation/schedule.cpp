#include "tests/simulation/schedule.hpp"

#include <algorithm>
#include <array>

namespace cxxrun::simulation {
namespace {

using rendezvous::Tie;

constexpr std::array kNames{"agent dies",        "agent and parent die", "host dies",         "host vanishes",
                            "agent freezes",     "host freezes",         "job freezes",       "host cut off",
                            "cut in two",        "cut one way",          "flaky pair",        "connections die",
                            "worker fails",      "worker unkillable",    "told to end",       "a node joins",
                            "a node comes back", "parent dies",          "restarted by hand", "drained by hand"};
static_assert(kNames.size() == static_cast<std::size_t>(Trouble::kCount));

/// Losses and cuts more often than what the coordinator alone can settle.
Trouble draw_trouble(Random& random) {
  static constexpr std::array kMore{Trouble::agent_dies, Trouble::host_dies,   Trouble::cut_off, Trouble::cut_in_two,
                                    Trouble::cut_off,    Trouble::cut_in_two,  Trouble::flaky,   Trouble::cut_one_way,
                                    Trouble::agent_dies, Trouble::host_freezes};
  if (random.chance(50)) {
    return kMore[static_cast<std::size_t>(random.pick(0, kMore.size() - 1))];
  }
  auto const trouble = static_cast<Trouble>(random.pick(0, static_cast<int>(Trouble::comes_back)));
  return trouble == Trouble::told_to_end && random.chance(60) ? Trouble::cut_off : trouble;
}

void draw_terms(Schedule& schedule, Random& random) {
  auto& policy = schedule.policy;
  Millis const t{random.chance(20) ? 5000 : random.chance(50) ? 2000 : 1000};
  policy.heartbeat_timeout = t;
  policy.tie = random.chance(70) ? Tie::rank : random.chance(80) ? Tie::fence : Tie::none;
  policy.max_restarts = static_cast<std::uint32_t>(random.pick(0, 3));
  policy.scale_out_now = random.chance(80);
  policy.join_window = t / 2;
  policy.rejoin_window = t / 2;
  policy.join_timeout = t * 10;
  policy.ack_timeout = t * 2;
  policy.stop_timeout = t * 6;
  policy.join_spacing = t * 4;
  policy.join_together = t / 2;
  policy.linger = t;
}

void draw_faults(Schedule& schedule, Random& random) {
  Micros const t = micros(schedule.timeout());
  auto const count = random.chance(5) ? 0 : random.pick(1, 6);
  Micros at = random.pick(0, 4) == 0 ? random.pick(0, t) : random.pick(t, 4 * t);
  for (std::int64_t i = 0; i < count; ++i) {
    Fault fault;
    fault.at = at;
    fault.trouble = draw_trouble(random);
    fault.lasts = random.chance(40) ? random.pick(t / 10, t) : random.pick(t / 2, 6 * t);
    schedule.faults.push_back(fault);
    schedule.trouble_ends = std::max(schedule.trouble_ends, fault.at + fault.lasts);
    // Soon after, while the last one is being dealt with; or when everything is quiet again.
    at += random.chance(50)   ? random.pick(0, t / 2)
          : random.chance(70) ? random.pick(t / 2, 3 * t)
                              : random.pick(3 * t, 8 * t);
  }
}

/// The next one often while the last one is being dealt with.
void draw_deaths(Schedule& schedule, Random& random) {
  Micros const t = micros(schedule.timeout());
  schedule.policy.stop_timeout = schedule.timeout() * 20;  // whoever waits for that waits for the dead
  schedule.nodes = schedule.policy.max_nodes = static_cast<std::uint32_t>(random.pick(3, 9));
  schedule.policy.min_nodes = random.chance(75) ? 1 : static_cast<std::uint32_t>(random.pick(1, schedule.nodes));
  Micros at = 2 * t;
  for (auto left = random.pick(1, 6); left > 0; --left) {
    bool const fails = random.chance(10);
    auto const death = static_cast<Trouble>(random.pick(0, static_cast<int>(Trouble::host_vanishes)));
    schedule.faults.push_back(Fault{at, fails ? Trouble::worker_fails : death, 0, {}});
    schedule.trouble_ends = at;
    // Two workers that fail within a message's delay are both the first, for all that anybody can know.
    at += (fails ? 2 * schedule.most_delay : 0) + random.pick(0, random.chance(50) ? 20'000 : 2 * t);
  }
}

/// Nearly all of them come while what the last one led to is not over.
void draw_failures(Schedule& schedule, Random& random) {
  Micros const t = micros(schedule.timeout());
  schedule.nodes = schedule.policy.max_nodes = static_cast<std::uint32_t>(random.pick(2, 6));
  schedule.policy.min_nodes = random.chance(75) ? 1 : static_cast<std::uint32_t>(random.pick(1, schedule.nodes));
  schedule.nodes -= schedule.nodes > schedule.policy.min_nodes && random.chance(40) ? 1 : 0;
  schedule.policy.max_restarts = static_cast<std::uint32_t>(random.pick(2, 6));
  Micros at = 2 * t;
  for (auto left = random.pick(2, 9); left > 0; --left) {
    static constexpr std::array kOthers{Trouble::agent_dies, Trouble::both_die, Trouble::host_vanishes, Trouble::joins,
                                        Trouble::joins};
    auto const other = kOthers[static_cast<std::size_t>(random.pick(0, kOthers.size() - 1))];
    schedule.faults.push_back(Fault{at, random.chance(70) ? Trouble::worker_fails : other, 0, {}});
    schedule.trouble_ends = at;
    at += 2 * schedule.most_delay + random.pick(0, random.chance(70) ? t / 2 : 3 * t);
  }
}

/// From a stream of its own: what else a seed means stays as it is.
void draw_restarts(Schedule& schedule) {
  Random random(schedule.seed ^ 0x2545F491U);
  Millis const t = schedule.timeout();
  auto& policy = schedule.policy;
  policy.max_restarts_given = random.chance(50);
  policy.restart_delay = random.chance(30) ? Millis{0} : random.chance(50) ? t / 8 : t / 2;
  policy.long_enough = t * 3;
}

/// The same: of some pairs of agent and parent the parent dies first.
void draw_parents(Schedule& schedule) {
  Random random(schedule.seed ^ 0x27D4EB2FU);
  for (auto& fault : schedule.faults) {
    if (fault.trouble == Trouble::both_die && random.chance(30)) {
      fault.trouble = Trouble::parent_dies;
    }
  }
}

/// From a stream of its own, too: some programs end while there is still trouble.
void draw_end(Schedule& schedule) {
  Random random(schedule.seed ^ 0x1B873593U);
  Micros const t = micros(schedule.timeout());
  if (random.chance(30)) {
    schedule.ends_after = random.pick(t / 4, random.chance(50) ? 3 * t : 8 * t);
  }
}

/// Nothing dies, and no cut is as long as the timeout: resets, and links that fail for a moment.
void draw_cuts(Schedule& schedule, Random& random) {
  Micros const t = micros(schedule.timeout());
  schedule.policy.tie = Tie::rank;  // half, and a fence that cannot be read, is nobody's fault
  schedule.nodes = schedule.policy.max_nodes = static_cast<std::uint32_t>(random.pick(2, 9));
  schedule.policy.min_nodes = random.chance(75) ? 1 : static_cast<std::uint32_t>(random.pick(1, schedule.nodes));
  Micros at = 2 * t;
  for (auto left = random.pick(1, 6); left > 0; --left) {
    static constexpr std::array kCuts{Trouble::cut_off, Trouble::cut_in_two, Trouble::cut_one_way, Trouble::flaky,
                                      Trouble::connections_die};
    auto const trouble = kCuts[static_cast<std::size_t>(random.pick(0, kCuts.size() - 1))];
    schedule.faults.push_back(Fault{at, trouble, random.pick(0, t / 8), {}});  // all of them in a row: still shorter
    schedule.trouble_ends = std::max(schedule.trouble_ends, at + schedule.faults.back().lasts);
    at += random.pick(0, random.chance(50) ? 20'000 : 2 * t);
  }
}

}  // namespace

char const* name_of(Trouble trouble) {
  return kNames[static_cast<std::size_t>(trouble)];
}

launcher::agent::Policy agent_policy(Schedule const& schedule) {
  launcher::agent::Policy agent;
  Millis const t = schedule.timeout();
  agent.lease = rendezvous::lease_terms(t);
  agent.tie = schedule.policy.tie;
  agent.spacing = std::max(Millis{100}, Millis{schedule.most_delay / 1000 * 5});
  agent.shutdown_timeout = t;
  agent.end_timeout = t;
  agent.restart_timeout = t / 2;
  agent.kill_timeout = t;
  agent.farewell_timeout = t;
  agent.voting_timeout = t * 6;
  return agent;
}

Schedule draw(std::uint64_t seed) {
  Random random(seed ^ 0x5DEECE66DU);
  Schedule schedule;
  schedule.seed = seed;
  draw_terms(schedule, random);
  auto& policy = schedule.policy;
  auto const most = random.chance(75) ? random.pick(2, 5) : random.pick(2, 9);
  policy.max_nodes = static_cast<std::uint32_t>(most);
  policy.min_nodes = random.chance(60) ? 1 : static_cast<std::uint32_t>(random.pick(1, most));
  schedule.nodes = policy.max_nodes;
  if (random.chance(25)) {  // spares
    schedule.nodes = std::min<std::uint32_t>(9, schedule.nodes + static_cast<std::uint32_t>(random.pick(1, 2)));
  } else if (random.chance(20)) {
    schedule.nodes = static_cast<std::uint32_t>(random.pick(policy.min_nodes, most));
  }
  if (random.chance(40)) {
    policy.expected_nodes = schedule.nodes;
  }
  schedule.most_delay = random.chance(70) ? 3'000 : random.pick(5'000, 40'000);
  schedule.store_delay = random.pick(200, 20'000);
  if (seed >= kOnlyCuts) {
    draw_cuts(schedule, random);
  } else if (seed >= kOnlyFailures) {
    draw_failures(schedule, random);
  } else if (seed >= kOnlyDeaths) {
    draw_deaths(schedule, random);
  } else {
    draw_faults(schedule, random);
  }
  draw_restarts(schedule);
  schedule.agent = agent_policy(schedule);
  Micros const t = micros(schedule.timeout());
  // After cuts long enough for everybody to come back.
  schedule.work = seed >= kOnlyCuts ? 16 * t : random.pick(t / 2, 4 * t);
  draw_end(schedule);
  draw_parents(schedule);
  schedule.bound = schedule.trouble_ends + schedule.work + 150 * t;
  return schedule;
}

std::string describe(Schedule const& schedule) {
  auto const& policy = schedule.policy;
  std::string text = "seed " + std::to_string(schedule.seed) + ": " + std::to_string(schedule.nodes) + " nodes for " +
                     std::to_string(policy.min_nodes) + ":" + std::to_string(policy.max_nodes) + ", T " +
                     std::to_string(schedule.timeout().count()) + " ms, tie " +
                     (policy.tie == Tie::rank    ? "rank"
                      : policy.tie == Tie::fence ? "fence"
                                                 : "none") +
                     ", max restarts " + std::to_string(policy.max_restarts);
  for (auto const& fault : schedule.faults) {
    text += "; at " + std::to_string(fault.at / 1000) + " " + name_of(fault.trouble) + " (" +
            std::to_string(fault.lasts / 1000) + ")";
  }
  return text + "; trouble ends " + std::to_string(schedule.trouble_ends / 1000) +
         (schedule.ends_after ? "; the program ends after " + std::to_string(*schedule.ends_after / 1000) : "");
}

}  // namespace cxxrun::simulation
