// Mandate: by what right a coordinator decides, and how far it has come with the next decree. Pure.
//
// Part of membership's State. A coordinator that was named in the last decree proposes the next one in round 1; one
// that stands for election asks the members of the last generation first (phase electing), adopts what any of them has
// accepted, and otherwise proposes its own. Rules: docs/election.md; who calls what, when: membership.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "rendezvous/decree.hpp"
#include "rendezvous/lease.hpp"
#include "rendezvous/quorum.hpp"
#include "src/core/time.hpp"

namespace cxxrun::rendezvous {

using AgentId = std::uint64_t;

/// A seat of a generation that has run: {generation, group rank}.
using Held = std::pair<std::uint64_t, std::uint32_t>;

struct Mandate {
  bool external = false;  ///< no agent coordinates (cxxrun-rendezvous): nobody votes, nobody can take over
  Decree decided;         ///< the last one; number 0: none yet, and the first needs no vote
  Ballot ballot;          ///< with which the next one is proposed
  std::map<AgentId, std::uint32_t> voters;  ///< connected members of `decided`, with their group ranks there
  std::set<std::uint32_t> promised;         ///< members that have promised `ballot`
  std::optional<AcceptedDecree> highest;    ///< highest accepted decree among their votes: to be adopted
  std::optional<Decree> proposal;           ///< being voted on
  bool adopted = false;                     ///< it is another coordinator's: once decided it is not started
  std::set<std::uint32_t> accepted;         ///< members that have accepted `proposal`
  std::uint32_t tries = 0;                  ///< rounds of election without a quorum
  Authority authority;                      ///< echoes, by group rank of `decided`
  std::map<AgentId, TimePoint> granted;     ///< when each agent was last sent a lease
  /// Seats whose workers may still run, and when they cannot any more even if nothing is heard: the gate before Start.
  std::map<Held, TimePoint> unproven;
};

/// `group_rank` of the generation that `mandate` decided has stopped, or its parent says that it is gone.
void prove_stopped(Mandate& mandate, std::uint64_t number, std::uint32_t group_rank);
/// When Start may be sent: now (nothing), or at the latest of what is unproven.
[[nodiscard]] std::optional<TimePoint> gate(Mandate const& mandate, TimePoint now);
/// The proposal has enough acceptances to be decided. `half`: a fence has to decide.
[[nodiscard]] Majority acceptance(Mandate const& mandate);
/// Makes the proposal the last decided generation: its members vote from now on, and `voters` are to be filled again.
void note_decided(Mandate& mandate);

}  // namespace cxxrun::rendezvous
