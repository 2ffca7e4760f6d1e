#include "rendezvous/membership/forming.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/granting.hpp"
#include "rendezvous/membership/leaving.hpp"
#include "rendezvous/membership/seating.hpp"
#include "rendezvous/membership/setting_aside.hpp"
#include "rendezvous/membership/succession.hpp"
#include "src/core/hash.hpp"
#include "src/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

/// Missing in a generation taken over, and proven dead since.
std::size_t buried(State const& state) {
  Mandate const& mandate = state.mandate;
  return static_cast<std::size_t>(std::count_if(mandate.missing.begin(), mandate.missing.end(), [&](auto rank) {
    return mandate.buried.contains(Held{mandate.decided.number, rank});
  }));
}

/// How many nodes can be there at best: those of the step that are not known dead, and those that were added.
std::size_t can_come(State const& state, Policy const& policy) {
  if (!policy.expected_nodes) {
    return std::numeric_limits<std::size_t>::max();
  }
  std::size_t const dead = state.dead.size() + state.vanished + buried(state);
  std::size_t const added = state.present.size() - state.index_owner.size();
  return (*policy.expected_nodes > dead ? *policy.expected_nodes - dead : 0) + added;
}

/// Taking over from a coordinator that everybody who has promised has not heard for the timeout: as lost as a member.
bool was_silent(State const& state, TimePoint now, Policy const& policy) {
  Mandate const& mandate = state.mandate;
  return mandate.missing.contains(mandate.decided.coordinator) &&
         !mandate.buried.contains(Held{mandate.decided.number, mandate.decided.coordinator}) && mandate.last_word &&
         policy.heartbeat_timeout > Millis{0} && now - *mandate.last_word >= policy.heartbeat_timeout;
}

/// Members of the last generation that are here; and, taking over, those that may only be late to notice the loss.
/// Others are known to be lost: who replaces them, if anybody, enters the running job.
std::size_t left_of_it(Turn const& turn) {
  State const& state = turn.state;
  auto const here = std::count_if(state.seats.begin(), state.seats.end(),
                                  [&](Seat const& seat) { return state.present.contains(seat.agent); });
  std::size_t const lost = buried(state) + (was_silent(state, turn.now, turn.policy) ? 1 : 0);
  return std::min(static_cast<std::size_t>(here) + state.mandate.missing.size() - lost, state.seats.size());
}

/// With how many nodes there is nothing to wait for.
std::size_t target_size(Turn const& turn) {
  State const& state = turn.state;
  std::size_t target = std::min<std::size_t>(turn.policy.max_nodes, can_come(state, turn.policy));
  if (state.ever_ran) {
    target = std::min(target, left_of_it(turn));
  }
  return std::max<std::size_t>(target, turn.policy.min_nodes);
}

std::string of_nodes(std::size_t have, std::size_t want) {
  return std::to_string(have) + " of " + std::to_string(want) + (want == 1 ? " node" : " nodes");
}

std::string lost_hosts(State const& state) {
  std::string hosts;
  for (auto const& seat : state.seats) {
    if (seat.now == Seat::Now::lost) {
      hosts += (hosts.empty() ? "" : ", ") + seat.node.host;
    }
  }
  return hosts;
}

/// "; set aside: node3: why; node7: why", at most eight of them; "" when every health check passed.
std::string unfit_nodes(State const& state) {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::size_t shown = 0;
  for (auto const& [key, line] : state.unfit) {
    if (++shown > kMost) {
      return text + "; and " + std::to_string(state.unfit.size() - kMost) + " more";
    }
    text += (shown == 1 ? "; set aside: " : "; ") + line;
  }
  return text;
}

/// Node indices of the step that nobody has joined with, at most eight of them.
std::string missing_indices(State const& state, Policy const& policy) {
  std::string text;
  int shown = 0;
  for (std::uint32_t index = 0; policy.expected_nodes && index < *policy.expected_nodes; ++index) {
    if (!state.index_owner.contains(index)) {
      if (++shown > 8) {
        return text + ", …";
      }
      text += (text.empty() ? "" : ", ") + std::to_string(index);
    }
  }
  return text;
}

void give_up(Turn& turn, std::string why) {
  State const& state = turn.state;
  if (!state.set_aside.empty()) {
    conclude(turn, make_verdict(state, turn.policy, End::unkillable, kExitUnkillable,
                                "unkillable worker on " + state.set_aside));
    return;
  }
  std::string const lost = lost_hosts(state);
  std::string line = (lost.empty() ? "" : "node lost: " + lost + "; ") + std::move(why) + unfit_nodes(state);
  if (turn.policy.min_nodes == turn.policy.max_nodes && state.ever_ran) {
    line += "; to go on with fewer use --nnodes MIN:" + std::to_string(turn.policy.max_nodes) +
            " (under Slurm with srun --no-kill)";
  }
  conclude(turn, make_verdict(state, turn.policy, End::too_few_nodes, kExitTooFewNodes, line));
}

void open_generation(Turn& turn) {
  State& state = turn.state;
  state.seats = seat_agents(state.present, state.seats, turn.policy.max_nodes);
  state.seat_of.clear();
  for (std::uint32_t rank = 0; rank < state.seats.size(); ++rank) {
    state.seat_of.emplace(state.seats[rank].agent, rank);
  }
  state.reports.clear();
  state.join_deadline.reset();
  state.window_deadline.reset();
  state.awaited = 0;
  state.phase = Phase::opening;
  state.number = std::max(state.number, state.mandate.seen) + 1;
  turn.act(OpenStore{state.number});
}

std::vector<Successor> successors(std::vector<Seat> const& seats) {
  std::vector<Successor> heirs;
  for (std::uint32_t rank = 0; rank < seats.size() && heirs.size() < kMaxSuccessors; ++rank) {
    NodeInfo const& node = seats[rank].node;
    if (node.standby_port != 0) {
      heirs.push_back(Successor{rank, node.host, standby_address(seats, rank), node.standby_port});
    }
  }
  return heirs;
}

/// Tells one set of members in the order of their ranks from another, no more.
std::uint64_t digest(std::vector<Seat> const& seats) {
  std::uint64_t hash = kFnvBasis;
  for (auto const& seat : seats) {
    hash = fnv1a("\n", fnv1a(seat.node.incarnation, hash));
  }
  return hash;
}

Decree decree(State const& state, Policy const& policy) {
  Decree next;
  next.after = state.mandate.decided.number;
  next.number = state.number;
  next.size = static_cast<std::uint32_t>(state.seats.size());
  auto const host = std::find_if(state.seats.begin(), state.seats.end(), [](Seat const& s) { return s.node.hosts; });
  next.coordinator =
      host == state.seats.end() ? 0 : static_cast<std::uint32_t>(std::distance(state.seats.begin(), host));
  next.restarts = state.restarts;
  next.members = digest(state.seats);
  next.tie = policy.tie;
  return next;
}

bool may_be_succeeded(Policy const& policy) {
  return policy.heartbeat_timeout > Millis{0} && !policy.ends_when_empty;
}

}  // namespace

void begin_forming(Turn& turn) {
  if (turn.state.mandate.taking_over() && turn.state.number != turn.state.mandate.decided.number) {
    restore_seats(turn.state);
  }
  turn.state.phase = Phase::forming;
  turn.state.answer_deadline.reset();
  turn.state.window_deadline.reset();
  turn.state.join_deadline = turn.now + turn.policy.join_timeout;
  consider_forming(turn);
}

void form_again(Turn& turn) {
  State& state = turn.state;
  bool const decided = state.number == state.mandate.decided.number;
  if (decided && rivalled(state, turn.policy)) {
    turn.say(Level::warn, "generation " + std::to_string(state.number) + " is decided and cannot run");
    for (auto const& [agent, rank] : state.mandate.voters) {  // no Start will tell them that they vote on the next one
      turn.act(Tell{agent, Decided{state.mandate.decided, {}}});
    }
  }
  turn.act(CloseStore{state.number});
  begin_forming(turn);
}

void consider_forming(Turn& turn) {
  State& state = turn.state;
  bool const elected = state.mandate.taking_over() && rivalled(state, turn.policy);
  if (elected && !can_decide_without(state, "")) {  // whoever comes now has no vote
    stand_down(turn, "too few members of generation " + std::to_string(state.mandate.decided.number) + " are left");
    return;
  }
  call_back_if_too_few(turn);
  std::size_t const here = state.present.size();
  std::size_t const min = turn.policy.min_nodes;
  bool const fixed = turn.policy.min_nodes == turn.policy.max_nodes;
  if (can_come(state, turn.policy) < min) {
    give_up(turn, of_nodes(here, min) + " left and no other can come");
    return;
  }
  if (fixed && state.ever_ran && here < min) {
    give_up(turn, of_nodes(here, min) + " left and the size is fixed");
    return;
  }
  if (here < min && !state.unfit.empty() && !turn.policy.expected_nodes && (fixed || here == 0)) {
    give_up(turn, of_nodes(here, min) + " left");  // nobody is known who could come
    return;
  }
  if (here >= target_size(turn)) {
    open_generation(turn);
    return;
  }
  if (here < min) {
    state.window_deadline.reset();
    if (std::has_single_bit(here)) {  // a line for each of a thousand would tell less
      turn.say(Level::info, "waiting for nodes: " + std::to_string(here) + " of at least " + std::to_string(min) +
                                ", for at most " + seconds_text(turn.policy.join_timeout));
    }
    return;
  }
  if (!state.window_deadline) {
    state.window_deadline = turn.now + (state.ever_ran ? turn.policy.rejoin_window : turn.policy.join_window);
    turn.say(Level::info, of_nodes(here, turn.policy.max_nodes) + ": waiting for more");
  }
}

void forming_tick(Turn& turn) {
  State const& state = turn.state;
  if (state.window_deadline && *state.window_deadline <= turn.now) {
    open_generation(turn);
  } else if (state.join_deadline && *state.join_deadline <= turn.now) {
    std::string const missing = missing_indices(state, turn.policy);
    give_up(turn, of_nodes(state.present.size(), turn.policy.min_nodes) + " came within " +
                      seconds_text(turn.policy.join_timeout) + (missing.empty() ? "" : "; missing: node " + missing));
  }
}

void end_if_abandoned(Turn& turn) {
  State const& state = turn.state;
  if (!turn.policy.ends_when_empty || !state.present.empty() || state.phase == Phase::finished) {
    return;
  }
  if (state.stop.kind == StopKind::user) {
    conclude(turn, make_verdict(state, turn.policy, End::stopped, 128 + state.stop.signal, state.stop.why));
  } else {
    give_up(turn, "nobody is left");
  }
}

void begin_preparing(Turn& turn, StoreOpened const& store) {
  State& state = turn.state;
  RoleTotals const roles = count_roles(state.seats);
  Generation common;
  common.number = state.number;
  common.restarts = state.restarts;
  common.max_restarts = turn.policy.max_restarts;
  common.group_size = static_cast<std::uint32_t>(state.seats.size());
  common.world_size = roles.world;
  common.master_addr = master_address(state.seats, turn.policy.agent_store);
  common.master_port = store.master_port;
  common.store_port = store.store_port;
  common.successors = successors(state.seats);
  common.decree = decree(state, turn.policy);
  for (auto const& seat : state.seats) {
    common.coordinator = seat.node.hosts ? seat.node.incarnation : common.coordinator;
  }
  common.survives = may_be_succeeded(turn.policy) &&
                    (turn.policy.min_nodes < state.seats.size() || state.present.size() > state.seats.size());
  state.mandate.survives = common.survives;
  state.mandate.proposal = common.decree;
  state.mandate.proposed_successors = common.successors;
  name_members(state.seats, common);
  for (std::uint32_t rank = 0; rank < state.seats.size(); ++rank) {
    Seat const& seat = state.seats[rank];
    Generation own = common;
    own.group_rank = rank;
    own.rank_base = seat.rank_base;
    own.local_size = seat.node.slots;
    own.role_base = roles.base[rank];
    own.role_size = roles.size.at(seat.node.role);
    turn.act(Tell{seat.agent, Prepare{std::move(own), own_time(turn.now)}});
  }
  state.phase = Phase::preparing;
  state.awaited = static_cast<std::uint32_t>(state.seats.size());
  state.answer_deadline = turn.now + turn.policy.ack_timeout;
}

void tell_decided(Turn& turn, AgentId agent) {
  if (may_be_succeeded(turn.policy)) {
    turn.act(Tell{agent, Decided{turn.state.mandate.decided, turn.state.mandate.successors}});
  }
}

void begin_running(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  Millis const lease = left(turn, Count::exactly);
  mandate.granted.clear();
  std::erase_if(mandate.buried, [&](Held const& held) { return held.first < state.number; });
  state.phase = Phase::running;
  state.ever_ran = true;
  state.hanging = {};
  state.answer_deadline.reset();
  state.awaited = static_cast<std::uint32_t>(state.seats.size());
  std::uint32_t world = 0;
  for (auto& seat : state.seats) {
    seat.now = Seat::Now::running;
    world += seat.node.slots;
    turn.act(Tell{seat.agent, Start{state.number, mandate.pulses[seat.agent].sent, lease}});
    if (lease > Millis{0}) {
      mandate.granted[seat.agent] = turn.now;
    }
  }
  if (state.present.size() > state.seats.size()) {
    if (turn.policy.scale_out_now && state.seats.size() < turn.policy.max_nodes) {
      // Whoever came while this generation was being prepared. Later than now: the timer of now may have led here.
      state.scale_out_at = turn.now + Millis{1};
    }
    for (auto const& [agent, node] : state.present) {
      if (!state.seat_of.contains(agent)) {
        tell_decided(turn, agent);
      }
    }
  }
  turn.say(Level::info, "generation " + std::to_string(state.number) + " runs: " + std::to_string(state.seats.size()) +
                            (state.seats.size() == 1 ? " node, " : " nodes, ") + std::to_string(world) +
                            (world == 1 ? " worker" : " workers") +
                            (state.restarts == 0 ? "" : ", restarts used: " + std::to_string(state.restarts)));
}

void conclude(Turn& turn, Verdict verdict) {
  State& state = turn.state;
  state.phase = Phase::finished;
  state.answer_deadline = turn.now + turn.policy.linger;
  std::string const line =
      verdict.end == End::success ? "" : std::string(name_of(verdict.end)) + ": " + verdict.summary;
  for (auto const& [agent, elector] : std::exchange(state.electors, {})) {
    state.aside.emplace(agent, elector.node);
  }
  state.mandate.voters.clear();  // nothing is decided any more
  dismiss(turn);
  for (auto const* const agents : {&state.present, &state.aside}) {
    for (auto const& [agent, node] : *agents) {
      turn.act(Tell{agent, Finished{verdict.exit_code, line}});
    }
  }
  turn.say(verdict.end == End::success ? Level::info : Level::error,
           std::string("verdict: ") + name_of(verdict.end) +
               (verdict.end == End::success && !verdict.lost_nodes.empty()
                    ? "; lost on the way: " + join(verdict.lost_nodes, ", ")
                    : ""));
  turn.act(Conclude{verdict});
  state.verdict = std::move(verdict);
  close_if_alone(turn);
}

namespace {

/// Nodes of the step that have not come yet would look for a coordinator that is gone, for as long as join_timeout.
/// Whoever was told to end by a signal was told on every node.
bool others_will_come(State const& state, Policy const& policy) {
  End const end = state.verdict->end;
  return !state.mandate.took_over && policy.expected_nodes && state.came.size() < *policy.expected_nodes &&
         !policy.ends_when_empty && end != End::stopped && end != End::too_few_nodes;
}

}  // namespace

void close(Turn& turn) {
  if (!std::exchange(turn.state.closed, true)) {
    turn.act(Close{});
  }
}

void close_if_alone(Turn& turn) {
  State const& state = turn.state;
  if (state.present.empty() && state.aside.empty() && !others_will_come(state, turn.policy)) {
    close(turn);
  }
}

}  // namespace cxxrun::rendezvous
