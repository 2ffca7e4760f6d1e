#include "rendezvous/membership/starting.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/election.hpp"
#include "rendezvous/membership/leases.hpp"
#include "rendezvous/membership/roster.hpp"
#include "rendezvous/membership/seating.hpp"
#include "src/base/core/hash.hpp"

namespace cxxrun::rendezvous {
namespace {

/// In the order of ranks, but nodes that are not of the job's own step come last: they may have to leave before the job
/// ends, and end the job if they coordinate.
std::vector<Successor> successors(std::vector<Seat> const& seats) {
  std::vector<Successor> result;
  for (bool const placed : {true, false}) {
    for (std::uint32_t rank = 0; rank < seats.size() && result.size() < kMaxSuccessors; ++rank) {
      NodeInfo const& node = seats[rank].node;
      if (node.standby_port != 0 && node.node_index.has_value() == placed) {
        result.push_back(Successor{rank, node.host, standby_address(seats, rank), node.standby_port});
      }
    }
  }
  return result;
}

/// Differs for different members or ranks. No cryptographic hash.
std::uint64_t digest(std::vector<Seat> const& seats) {
  std::uint64_t hash = kFnvBasis;
  for (auto const& seat : seats) {
    hash = fnv1a("\n", fnv1a(seat.node.incarnation, hash));
  }
  return hash;
}

Decree decree(State const& state, Policy const& policy) {
  Decree next;
  next.after = state.proposer.decided.number;
  next.number = state.number;
  next.size = static_cast<std::uint32_t>(state.group.seats.size());
  auto const& seats = state.group.seats;
  auto const coordinator = std::find_if(seats.begin(), seats.end(), [](Seat const& s) { return s.node.coordinates; });
  next.coordinator = coordinator == seats.end() ? 0 : static_cast<std::uint32_t>(coordinator - seats.begin());
  next.restarts = state.restarts.consumed;
  next.streak = state.restarts.streak;
  next.history = in_short(state.ledger.history);
  next.faults = faults_in_short(state.roster.fitness);
  next.members = digest(state.group.seats);
  next.tie = policy.tie;
  return next;
}

/// Nodes that may get a seat: not those that lack workers, if MIN others are here. The coordinator's own node always
/// may, because a generation without it ends with its coordinator.
std::map<AgentId, NodeInfo> who_may_sit(Turn const& turn) {
  Roster const& roster = turn.state.roster;
  auto whole = roster.present;
  std::erase_if(whole, [&](auto const& node) {
    auto const it = roster.left_out.find(node.first);
    return it != roster.left_out.end() && !it->second.whole && !node.second.coordinates;
  });
  bool const enough = whole.size() >= std::max<std::size_t>(turn.policy.min_nodes, 1);
  if (!enough) {
    return roster.present;
  }
  return whole;
}

/// The seats of the last generation. Nodes that were left out get their old ranks again, if there is room.
std::vector<Seat> seats_before(Turn const& turn, std::map<AgentId, NodeInfo> const& may_sit) {
  std::multimap<std::uint32_t, AgentId> back;
  for (auto const& [agent, left_out] : turn.state.roster.left_out) {
    if (may_sit.contains(agent) && !turn.state.group.seat_of.contains(agent)) {
      back.emplace(left_out.rank, agent);
    }
  }
  auto seats = turn.state.group.seats;
  for (auto const& [rank, agent] : back) {
    if (seats.size() < turn.policy.max_nodes) {
      auto const at = seats.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(rank, seats.size()));
      seats.insert(at, Seat{})->agent = agent;
    }
  }
  return seats;
}

void tell_left_out(Turn& turn) {
  for (auto& [agent, left_out] : turn.state.roster.left_out) {
    if (!std::exchange(left_out.told, true)) {
      turn.act(Tell{agent, LeftOut{turn.state.number}});
    }
  }
}

bool restart_waits(Turn const& turn) {
  return turn.state.timers.restart && turn.now < *turn.state.timers.restart;
}

std::string round_of(Ballot const& ballot) {
  return "round " + std::to_string(ballot.round) + " of node " + std::to_string(ballot.rank);
}

/// Performs an outcome of the vote. Half of the acceptances is final once every connected voter has answered.
Next follow(Turn& turn, Outcome outcome) {
  Proposer& proposer = turn.state.proposer;
  auto const& voters = turn.state.election.voters;
  if (outcome == Outcome::half && std::all_of(voters.begin(), voters.end(), [&](auto const& voter) {
        return proposer.accepted.contains(voter.second);
      })) {
    outcome = half_is_all(proposer);
  }
  if (outcome == Outcome::claim) {
    turn.act(ClaimFence{AcceptedDecree{proposer.ballot, *proposer.proposal}});
  } else if (outcome == Outcome::send) {
    for (auto const& [agent, rank] : voters) {
      turn.act(Tell{agent, Propose{proposer.ballot, *proposer.proposal}});
    }
  }
  return outcome == Outcome::decided ? Next{next::Decided{}} : Next{stay};
}

/// The members of the decided generation vote from now on: count_afresh() fills `voters` again.
void note_decided(State& state) {
  Election& election = state.election;
  auto own = std::exchange(election.proposed_successors, {});
  election.turned_away.clear();
  election.successors = state.proposer.adopted() ? std::vector<Successor>{} : std::move(own);
  election.voters.clear();
  conclude(state.proposer);
  state.leases.authority = {};
  state.leases.until.reset();
  state.leases.counted_at.reset();
}

}  // namespace

// ---- opening and preparing: members get seats, and become ready -----------------------------------------------

Next begin(Turn& turn, next::Opening const& /*what*/) {
  State& state = turn.state;
  auto const may_sit = who_may_sit(turn);
  state.group.seats = seat_agents(may_sit, seats_before(turn, may_sit), turn.policy.max_nodes);
  state.group.seat_of.clear();
  for (std::uint32_t rank = 0; rank < state.group.seats.size(); ++rank) {
    state.group.seat_of.emplace(state.group.seats[rank].agent, rank);
    state.roster.left_out.erase(state.group.seats[rank].agent);
  }
  assert(state.group.seat_of.size() == state.group.seats.size());  // no agent has two seats
  state.group.reports.clear();
  state.group.began.reset();
  state.group.lived = false;
  state.timers.join.reset();
  state.timers.window.reset();
  state.group.awaited = 0;
  state.number = std::max(state.number, state.election.seen) + 1;
  tell_left_out(turn);
  turn.act(OpenStore{state.number});
  return stay;
}

Next begin(Turn& turn, next::Preparing const& what) {
  State& state = turn.state;
  RoleTotals const roles = count_roles(state.group.seats);
  Generation common;
  common.number = state.number;
  common.restarts = state.restarts.consumed;
  common.max_restarts = turn.policy.max_restarts;
  common.group_size = static_cast<std::uint32_t>(state.group.seats.size());
  common.world_size = roles.world;
  common.master_addr = master_address(state.group.seats, turn.policy.agent_store);
  common.master_port = what.store.master_port;
  common.store_port = what.store.store_port;
  open_ledger(state.ledger, turn.now);
  turn.tell(book_wait(state.ledger, turn.now));
  state.ledger.history.ranks = roles.world;
  common.successors = successors(state.group.seats);
  common.decree = decree(state, turn.policy);
  for (auto const& seat : state.group.seats) {
    common.coordinator = seat.node.coordinates ? seat.node.incarnation : common.coordinator;
  }
  common.survives = may_be_succeeded(turn.policy) && (turn.policy.min_nodes < state.group.seats.size() ||
                                                      state.roster.present.size() > state.group.seats.size());
  state.election.survives = common.survives;
  state.proposer.proposal = common.decree;
  state.election.proposed_successors = common.successors;
  name_members(state.group.seats, common);
  auto const job_end = state.job_end ? std::optional(time_left(*state.job_end, turn.now)) : std::nullopt;
  turn.tell(story::Formed{common.number, common.group_size, common.world_size, common.restarts, common.hosts,
                          common.local_sizes});
  for (std::uint32_t rank = 0; rank < state.group.seats.size(); ++rank) {
    Seat const& seat = state.group.seats[rank];
    Generation own = common;
    own.group_rank = rank;
    own.rank_base = seat.rank_base;
    own.local_size = seat.node.slots;
    own.role_base = roles.base[rank];
    own.role_size = roles.size.at(seat.node.role);
    turn.act(Tell{seat.agent, Prepare{std::move(own), own_time(turn.now), job_end}});
  }
  state.group.awaited = static_cast<std::uint32_t>(state.group.seats.size());
  state.timers.answer = turn.now + turn.policy.ack_timeout;
  return stay;
}

void tell_decided(Turn& turn, AgentId agent) {
  if (may_be_succeeded(turn.policy)) {
    turn.act(Tell{agent, Decided{turn.state.proposer.decided, turn.state.election.successors}});
  }
}

Next handle(Turn& turn, Seat& seat, Ack const& message) {
  if (turn.state.phase != Phase::preparing || seat.now != Seat::Now::invited) {
    return stay;
  }
  note_echo(turn, seat.agent, message.echo, message.sent);
  seat.now = Seat::Now::ready;
  State& state = turn.state;
  if (--state.group.awaited > 0) {
    return stay;
  }
  state.timers.answer.reset();
  bool const nobody_votes = state.proposer.proposal->after == 0 || !rivalled(state, turn.policy);
  return nobody_votes ? Next{next::Decided{}} : Next{next::Proposing{}};
}

// ---- proposing: the vote on the decree ------------------------------------------------------------------------

Next begin(Turn& turn, next::Proposing const& /*what*/) {
  turn.state.timers.answer = turn.now + turn.policy.ack_timeout;
  return follow(turn, propose(turn.state.proposer));
}

Next count_acceptances(Turn& turn) {
  return turn.state.phase == Phase::proposing ? follow(turn, count(turn.state.proposer)) : Next{stay};
}

Next on_accepted(Turn& turn, AgentId agent, Accepted const& message) {
  Proposer& proposer = turn.state.proposer;
  Election& election = turn.state.election;
  auto const voter = election.voters.find(agent);
  if (voter == election.voters.end() || message.after != proposer.decided.number) {
    turn.say(Level::debug, "ignored: an acceptance after " + name_of(message.after), "ignored");
    return stay;
  }
  if (message.promised > proposer.ballot) {
    return next::Deposed{"a member follows " + round_of(message.promised)};
  }
  bool const counts =
      turn.state.phase == Phase::proposing && message.ballot == proposer.ballot && message.promised == proposer.ballot;
  return counts ? follow(turn, hear_acceptance(proposer, voter->second)) : Next{stay};
}

Next handle(Turn& turn, Fenced const& event) {
  State& state = turn.state;
  if (state.phase != Phase::proposing || event.after != state.proposer.decided.number) {
    return stay;
  }
  Outcome const outcome = hear_fence(state.proposer, event.holds);
  if (outcome != Outcome::partitioned) {
    return follow(turn, outcome);
  }
  auto const where = "the fence after " + name_of(event.after);
  return next::Finished{
      make_verdict(state, turn.policy, End::partitioned, kExitPartitioned,
                   where + (event.holds ? " belongs to other nodes" : " cannot be claimed: " + event.why))};
}

Next begin(Turn& turn, next::Decided const& /*what*/) {
  State& state = turn.state;
  assert(state.proposer.proposal);
  Election& election = state.election;
  if (state.proposer.adopted()) {
    std::uint32_t const round = state.proposer.ballot.round;
    note_decided(state);
    return campaign_after_adopted(turn, round + 1);
  }
  state.roster.vanished += static_cast<std::uint32_t>(std::exchange(election.missing, {}).size());
  if (election.succession == Succession::none && election.survives) {
    election.succession = Succession::possible;
  }
  note_decided(state);
  count_afresh(turn);
  dismiss(turn);
  drop_late_followers(turn, name_of(state.number) + " was decided without you");
  return all_here(state) ? Next{next::LeaseWait{}} : Next{next::FormingAgain{}};
}

// ---- lease wait and running -----------------------------------------------------------------------------------

std::optional<TimePoint> lease_wait(Leases const& leases, TimePoint now) {
  std::optional<TimePoint> latest;
  for (auto const& [held, at] : leases.outstanding) {
    if (at > now) {
      latest = std::max(latest.value_or(at), at);
    }
  }
  return latest;
}

Next take_in_while_waiting(Turn& turn) {
  State& state = turn.state;
  if (!restart_waits(turn) || state.group.seats.size() >= turn.policy.max_nodes || spares(state) == 0) {
    return stay;
  }
  turn.say(Level::info, std::to_string(spares(state)) + " more node(s) came: forming again");
  return next::FormingAgain{};
}

Next begin(Turn& turn, next::LeaseWait const& /*what*/) {
  if (Next again = take_in_while_waiting(turn); !std::holds_alternative<next::Stay>(again)) {
    return again;
  }
  Next next = try_start(turn);
  if (std::holds_alternative<next::Stay>(next) && !turn.state.leases.outstanding.empty()) {
    turn.say(Level::info, name_of(turn.state.number) + " waits until no older worker can be alive");
  }
  return next;
}

Next try_start(Turn& turn) {
  State& state = turn.state;
  Leases& leases = state.leases;
  if (state.phase != Phase::lease_wait) {
    return stay;
  }
  std::erase_if(leases.outstanding, [&](auto const& entry) { return entry.second <= turn.now; });
  bool const waits = restart_waits(turn);
  state.timers.answer = lease_wait(leases, turn.now);
  if (waits) {
    state.timers.answer = std::max(state.timers.answer.value_or(*state.timers.restart), *state.timers.restart);
  }
  if (waits || !leases.outstanding.empty()) {
    return stay;
  }
  if (leases_on(turn.policy) && left(turn, Count::lazily) <= Millis{0}) {
    return stay;  // the next beats bring it
  }
  return next::Running{};
}

Next begin(Turn& turn, next::Running const& /*what*/) {
  State& state = turn.state;
  Leases& leases = state.leases;
  Millis const lease = left(turn, Count::exactly);
  assert(all_here(state));
  assert(!leases_on(turn.policy) || lease > Millis{0});  // authority before a start
  leases.granted.clear();
  std::erase_if(state.election.dead, [&](auto const& entry) { return entry.first.first < state.number; });
  state.ever_ran = true;
  state.hangs = {};
  state.blame = {};
  state.leavers = {};
  state.group.began = turn.now;
  start_generation(state.ledger, turn.now);
  turn.tell(story::Started{state.number});
  state.timers.answer.reset();
  state.timers.restart.reset();
  state.group.awaited = static_cast<std::uint32_t>(state.group.seats.size());
  std::uint32_t world = 0;
  for (auto& seat : state.group.seats) {
    seat.now = Seat::Now::running;
    world += seat.node.slots;
    turn.act(Tell{seat.agent, Start{state.number, leases.pulses[seat.agent].sent, lease}});
    if (lease > Millis{0}) {
      leases.granted[seat.agent] = turn.now;
    }
  }
  if (state.roster.present.size() > state.group.seats.size()) {
    if (turn.policy.scale_out_now && spares(state) > 0 && state.group.seats.size() < turn.policy.max_nodes) {
      // For nodes that came while this generation was being prepared. Not now: this very tick may have led here.
      state.timers.scale_out = turn.now + Millis{1};
    }
    for (auto const& [agent, node] : state.roster.present) {
      if (!state.group.seat_of.contains(agent)) {
        tell_decided(turn, agent);
      }
    }
  }
  turn.say(Level::info,
           name_of(state.number) + " runs: " + std::to_string(state.group.seats.size()) +
               (state.group.seats.size() == 1 ? " node, " : " nodes, ") + std::to_string(world) +
               (world == 1 ? " worker" : " workers") +
               (state.restarts.consumed == 0 ? "" : ", restarts used: " + std::to_string(state.restarts.consumed)));
  return stay;
}

}  // namespace cxxrun::rendezvous
