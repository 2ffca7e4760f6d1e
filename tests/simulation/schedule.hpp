// Schedule: what is drawn from a seed before an execution begins: the job, its options, and the trouble to come.
#pragma once

#include <optional>
#include <vector>

#include "launcher/life/agent_state.hpp"
#include "rendezvous/history/policy.hpp"
#include "tests/simulation/mutation.hpp"
#include "tests/simulation/world.hpp"

namespace cxxrun::simulation {

enum class Trouble {
  agent_dies,       ///< SIGKILL of one agent; its parent reaps the workers and sends the death notice
  both_die,         ///< agent and parent at once; the kernel kills the workers
  host_dies,        ///< power: silent
  host_vanishes,    ///< every process of a host is killed, its kernel says FIN
  agent_freezes,    ///< SIGSTOP of one agent for a while; the workers go on
  host_freezes,     ///< a suspended virtual machine
  job_freezes,      ///< scontrol suspend: everybody
  cut_off,          ///< one host from all others
  cut_in_two,       ///< two sides
  cut_one_way,      ///< asymmetric
  flaky,            ///< a short cut of one pair
  connections_die,  ///< resets of some connections
  worker_fails,     ///< and its peers with it
  worker_unkillable,
  told_to_end,  ///< SIGTERM to one agent
  joins,        ///< a node more
  comes_back,   ///< a new agent on the host of a dead one
  parent_dies,  ///< the parent alone: its agent kills the workers, says so and ends
  restarted,    ///< by hand, wherever somebody leads
  drained,      ///< by hand, one node of whoever leads
  kCount,
};
[[nodiscard]] char const* name_of(Trouble trouble);

struct Fault {
  Micros at = 0;
  Trouble trouble = Trouble::flaky;
  Micros lasts = 0;
  std::optional<std::uint32_t> who;  ///< which node, in traces by hand; nothing: drawn when it happens
};

struct Schedule {
  std::uint64_t seed = 0;
  std::uint32_t nodes = 1;  ///< at the start, spares included
  rendezvous::Policy policy;
  launcher::agent::Policy agent;
  Micros most_delay = 3'000;
  std::int64_t clock_ppm = 1000;  ///< each clock is at most so wrong
  Micros store_delay = 2'000;
  std::vector<Fault> faults;
  Micros trouble_ends = 0;
  Micros work = 0;                   ///< how long workers have to run after that
  std::optional<Micros> ends_after;  ///< in place of that: how long they have to run, whatever happens meanwhile
  Micros bound = 0;                  ///< every agent has left by then
  std::uint64_t most_steps = 300'000;
  Mutation mutation = Mutation::none;
  bool forged = false;          ///< a Forger is there
  bool only_suspended = false;  ///< nothing else happens: its workers end by themselves
  [[nodiscard]] Millis timeout() const { return policy.heartbeat_timeout; }
};

/// What the agents' policy follows from.
[[nodiscard]] launcher::agent::Policy agent_policy(Schedule const& schedule);
/// Seeds from here on: nothing but deaths, in close succession.
inline constexpr std::uint64_t kOnlyDeaths = 1'000'000'000;
/// And from here on: nothing but failures of workers, often while a restart is waited for, and the loss of nodes and
/// nodes that come meanwhile.
inline constexpr std::uint64_t kOnlyFailures = 1'500'000'000;
/// And from here on: nothing but resets, and cuts shorter than the timeout.
inline constexpr std::uint64_t kOnlyCuts = 2'000'000'000;
[[nodiscard]] Schedule draw(std::uint64_t seed);
/// For people.
[[nodiscard]] std::string describe(Schedule const& schedule);

}  // namespace cxxrun::simulation
