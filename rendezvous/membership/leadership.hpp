// Leadership: by what right a coordinator decides, and how far it has come with the next decree. Pure.
//
// Part of membership's State. A coordinator that was named in the last decree proposes the next one in round 1; one
// that campaigns asks the members of the last generation first (phase electing), adopts what any of them has
// accepted, and otherwise proposes its own. Rules: docs/design/election.md; who calls what, when: membership.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "rendezvous/values/decree.hpp"
#include "rendezvous/values/generation.hpp"
#include "rendezvous/voting/lease.hpp"
#include "rendezvous/voting/quorum.hpp"
#include "src/core/time.hpp"

namespace cxxrun::rendezvous {

using AgentId = std::uint64_t;

/// A seat of a generation that has run: {generation, group rank}.
using Held = std::pair<std::uint64_t, std::uint32_t>;

/// What the beats and acks of one agent have brought.
struct Pulse {
  std::optional<TimePoint> echo;  ///< newest own send time that it sent back
  std::int64_t sent = 0;          ///< newest send time of its own: what its first lease rests on
};

struct Leadership {
  Decree decided;                              ///< the last one; number 0: none yet, and the first needs no vote
  Ballot ballot;                               ///< with which the next one is proposed
  std::map<AgentId, std::uint32_t> voters;     ///< connected members of `decided`, with their group ranks there
  std::set<std::uint32_t> promised;            ///< members that have promised `ballot`
  std::optional<AcceptedDecree> highest;       ///< highest accepted decree among their votes: to be adopted
  std::optional<Decree> proposal;              ///< being voted on
  std::vector<Successor> successors;           ///< of `decided`; empty: not known
  std::vector<Successor> proposed_successors;  ///< of our own proposal
  bool adopted = false;                        ///< it is another coordinator's: once decided it is not started
  std::set<std::uint32_t> accepted;            ///< members that have accepted `proposal`
  std::uint32_t tries = 0;                     ///< rounds of election without a quorum
  bool rivals = false;             ///< a generation could go on without its coordinator: somebody else may be elected
  bool survives = false;           ///< so can the one being prepared
  bool took_over = false;          ///< elected at least once
  bool two_nodes = false;          ///< the pair rule may hold: two members in two nodes, no spare and no stranger ever
  bool pair = false;               ///< it does: the other member is proven dead, ours decides alone
  Millis half_after{0};            ///< standing: how long to wait for a majority before half and the fence will do
  bool halved = false;             ///< exactly half have promised: the fence is claimed before anything is proposed
  bool claiming = false;           ///< waiting for Fenced
  bool claimed = false;            ///< the fence holds `proposal`
  bool proposed = false;           ///< `proposal` has been sent to the voters
  std::uint64_t seen = 0;          ///< highest generation number that anybody has heard of
  Authority authority;             ///< echoes, by group rank of `decided`
  std::optional<TimePoint> until;  ///< authority as last counted; never more than it is
  std::optional<TimePoint> counted_at;  ///< when that was
  std::optional<TimePoint> check_at;    ///< authority may have run out at
  std::map<AgentId, Pulse> pulses;
  std::map<AgentId, TimePoint> granted;  ///< when each agent was last sent a lease
  /// Seats whose workers may still run, and when they cannot any more even if nothing is heard: the lease wait before
  /// Start.
  std::map<Held, TimePoint> outstanding_leases;
  std::set<Held> confirmed_dead;          ///< seats whose agents' parents have sent a death notice
  std::set<std::uint32_t> missing;        ///< taking over: members of `decided` that have not called
  std::optional<TimePoint> last_contact;  ///< taking over: latest contact that a voter has had with the old coordinator

  /// Elected, and its own first decree is not decided yet: until then its seats are those of its predecessor's
  /// generation.
  [[nodiscard]] bool taking_over() const { return ballot.round >= kFirstElectedRound; }
};

/// `group_rank` of the generation that `leadership` decided has stopped, or its parent says that it is gone.
void prove_stopped(Leadership& leadership, std::uint64_t number, std::uint32_t group_rank);
/// When Start may be sent: now (nothing), or when the last outstanding lease has ended.
[[nodiscard]] std::optional<TimePoint> lease_wait(Leadership const& leadership, TimePoint now);
/// The proposal has enough acceptances to be decided. `half`: a fence has to decide.
[[nodiscard]] Majority acceptance(Leadership const& leadership);
/// Makes the proposal the last decided generation: its members vote from now on, and `voters` are to be filled again.
void note_decided(Leadership& leadership);

}  // namespace cxxrun::rendezvous
