#include "rendezvous/membership/forming.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/excluding.hpp"
#include "rendezvous/membership/leases.hpp"
#include "rendezvous/membership/roster.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

/// Missing members of a generation taken over that are proven dead.
std::size_t count_dead(State const& state) {
  Election const& election = state.election;
  return static_cast<std::size_t>(std::count_if(election.missing.begin(), election.missing.end(), [&](auto rank) {
    return election.dead.contains(Held{state.proposer.decided.number, rank});
  }));
}

/// Upper bound of the nodes that can be here: those of the step that are not known dead, and those that were added.
/// Nodes lost to an earlier coordinator count as nodes of the step, although some may have been added.
std::size_t can_come(State const& state, Policy const& policy) {
  if (!policy.expected_nodes) {
    return std::numeric_limits<std::size_t>::max();
  }
  std::size_t const dead = state.roster.dead.size() + state.roster.vanished + count_dead(state);
  std::size_t const added = state.roster.present.size() - state.roster.index_owner.size();
  std::size_t const step = *policy.expected_nodes > dead ? *policy.expected_nodes - dead : 0;
  return std::max(step + added, state.roster.present.size());
}

/// After a takeover: no voter had heard the old coordinator for the timeout, so it counts as lost like a member.
bool was_silent(State const& state, TimePoint now, Policy const& policy) {
  Proposer const& proposer = state.proposer;
  Election const& election = state.election;
  return election.missing.contains(proposer.decided.coordinator) &&
         !election.dead.contains(Held{proposer.decided.number, proposer.decided.coordinator}) &&
         election.last_contact && policy.heartbeat_timeout > Millis{0} &&
         now - *election.last_contact >= policy.heartbeat_timeout;
}

/// Members of the last generation that are here, and after a takeover those that may notice the loss late. The others
/// are known to be lost: nodes that replace them enter the running job.
std::size_t left_of_it(Turn const& turn) {
  State const& state = turn.state;
  std::size_t const lost = count_dead(state) + (was_silent(state, turn.now, turn.policy) ? 1 : 0);
  return std::min(seats_here(state) + state.election.missing.size() - lost, state.group.seats.size());
}

/// With this many nodes there is nothing to wait for.
std::size_t target_size(Turn const& turn) {
  State const& state = turn.state;
  std::size_t target = std::min<std::size_t>(turn.policy.max_nodes, can_come(state, turn.policy));
  if (state.ever_ran) {
    target = std::min(target, left_of_it(turn));
  }
  return std::max<std::size_t>(target, turn.policy.min_nodes);
}

/// At the start of the job, while more nodes of the step can come: one of them may replace a node that has failed in
/// earlier runs.
bool waits_for_better(Turn const& turn) {
  State const& state = turn.state;
  return !state.ever_ran && turn.policy.expected_nodes && has_known_bad(state) &&
         can_come(state, turn.policy) > state.roster.present.size();
}

/// Before the first generation, until this coordinator's own agent is here: a generation without it would end with its
/// coordinator. It may be excluded later, when its health check fails.
bool waits_for_own(Turn const& turn) {
  auto const& present = turn.state.roster.present;
  return turn.state.number == 0 && may_be_succeeded(turn.policy) &&
         std::none_of(present.begin(), present.end(), [](auto const& entry) { return entry.second.coordinates; });
}

/// The members that are neither here nor proven dead are enough to decide. So the job may go on among them: perhaps it
/// is this coordinator that is cut off.
bool others_may_decide(State const& state) {
  Decree const& decided = state.proposer.decided;
  std::set<std::uint32_t> others;
  for (std::uint32_t rank = 0; rank < decided.size; ++rank) {
    if (!state.election.dead.contains(Held{decided.number, rank})) {
      others.insert(others.end(), rank);
    }
  }
  for (auto const& [agent, rank] : state.election.voters) {
    others.erase(rank);
  }
  return majority(decided, others) != Majority::no;
}

bool may_be_cut_off(Turn const& turn) {
  State const& state = turn.state;
  return rivalled(state, turn.policy) && !state.proposer.taking_over() && others_may_decide(state);
}

/// Some of these members live: they called and were refused, before the connections of the others ended, too. They do
/// not call here again if they have found another coordinator.
bool others_go_on(Turn const& turn) {
  return !turn.state.election.turned_away.empty() && may_be_cut_off(turn);
}

std::string hosts_of(std::map<std::string, std::string> const& nodes) {
  std::vector<std::string> hosts;
  hosts.reserve(nodes.size());
  for (auto const& [key, host] : nodes) {
    hosts.push_back(host);
  }
  return join(hosts, ", ");
}

/// Too few nodes are left. Before that becomes the verdict, this waits a moment for members that go on elsewhere: a
/// call of one of them makes this coordinator step down. A node whose connection has ended may also come back.
bool waits_for_others(Turn& turn) {
  State& state = turn.state;
  Millis const patience = turn.policy.heartbeat_timeout * 2 / 5;
  bool const cut_off = may_be_cut_off(turn);
  if (patience == Millis{0} || (!cut_off && state.roster.cut.empty())) {
    return false;
  }
  if (!state.timers.rival) {
    state.timers.rival = turn.now + patience;
    turn.say(Level::info, "too few nodes are left: waiting to see whether " +
                              (cut_off ? "the others go on without this one"
                                       : hosts_of(state.roster.cut) + " can be reached again"));
  }
  return turn.now < *state.timers.rival;
}

std::string of_nodes(std::size_t have, std::size_t want) {
  return std::to_string(have) + " of " + counted(want, "node");
}

/// "; excluded: node3: why; node7: why", at most eight of them; "" when every health check passed.
std::string unfit_nodes(State const& state) {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::size_t shown = 0;
  for (auto const& [key, line] : state.roster.unfit) {
    if (++shown > kMost) {
      return text + "; and " + std::to_string(state.roster.unfit.size() - kMost) + " more";
    }
    text += (shown == 1 ? "; excluded: " : "; ") + line;
  }
  return text;
}

/// Node indices of the step that no node has joined with, at most eight of them.
std::string missing_indices(State const& state, Policy const& policy) {
  std::string text;
  int shown = 0;
  for (std::uint32_t index = 0; policy.expected_nodes && index < *policy.expected_nodes; ++index) {
    if (!state.roster.index_owner.contains(index)) {
      if (++shown > 8) {
        return text + ", …";
      }
      text += (text.empty() ? "" : ", ") + std::to_string(index);
    }
  }
  return text;
}

Next give_up(Turn const& turn, std::string why) {
  State const& state = turn.state;
  if (!state.roster.unkillable_on.empty()) {
    return next::Finished{make_verdict(state, turn.policy, End::unkillable, kExitUnkillable,
                                       "unkillable worker on " + state.roster.unkillable_on)};
  }
  std::string const lost = loss_line(state);
  std::string line = (lost.empty() ? "" : lost + "; ") + std::move(why) + unfit_nodes(state);
  if (perhaps_out_of_memory(state)) {
    line += "; if srun says Out Of Memory raise --mem (with srun --oom-kill-step=0 the report names the process)";
  }
  if (turn.policy.min_nodes == turn.policy.max_nodes && state.ever_ran) {
    line += "; to go on with fewer use --nnodes MIN:" + std::to_string(turn.policy.max_nodes) +
            " (under Slurm with --no-kill for sbatch and srun)";
  }
  return next::Finished{make_verdict(state, turn.policy, End::too_few_nodes, kExitTooFewNodes, line)};
}

}  // namespace

Next begin(Turn& turn, next::Forming const& /*what*/) {
  if (turn.state.proposer.taking_over() && turn.state.number != turn.state.proposer.decided.number) {
    restore_seats(turn.state);
  }
  turn.state.timers.answer.reset();
  turn.state.timers.window.reset();
  turn.state.timers.rival.reset();
  turn.state.timers.join = turn.now + turn.policy.join_timeout;
  return consider_forming(turn);
}

Next begin(Turn& turn, next::FormingAgain const& /*what*/) {
  State& state = turn.state;
  bool const decided = state.number == state.proposer.decided.number;
  if (decided && rivalled(state, turn.policy)) {
    if (!all_here(state)) {  // if all are here, it is formed again because more nodes came
      turn.say(Level::warn, name_of(state.number) + " is decided and cannot run");
    }
    // Without a Start its members would not know that they vote next.
    for (auto const& [agent, rank] : state.election.voters) {
      turn.act(Tell{agent, Decided{state.proposer.decided, {}}});
    }
  }
  turn.act(CloseStore{state.number});
  return next::Forming{};
}

Next consider_forming(Turn& turn) {
  State& state = turn.state;
  bool const elected = state.proposer.taking_over() && rivalled(state, turn.policy);
  if (elected && !can_decide_without(state, "")) {  // nodes that come now have no vote
    return next::Deposed{"too few members of " + name_of(state.proposer.decided.number) + " are left"};
  }
  call_back_if_too_few(turn);
  set_aside_known_bad(turn);
  std::size_t const here = state.roster.present.size();
  std::size_t const min = turn.policy.min_nodes;
  bool const fixed = turn.policy.min_nodes == turn.policy.max_nodes;
  std::string hopeless;
  if (can_come(state, turn.policy) < min) {
    hopeless = " left and no other can come";
  } else if (fixed && state.ever_ran && here < min) {
    hopeless = " left and the size is fixed";
  } else if (here < min && !state.roster.unfit.empty() && !turn.policy.expected_nodes && (fixed || here == 0)) {
    hopeless = " left";  // no node is known that could come
  }
  if (!hopeless.empty()) {
    if (others_go_on(turn)) {
      return next::Deposed{"members that have lost this coordinator are enough to go on without it"};
    }
    return waits_for_others(turn) ? Next{stay} : give_up(turn, of_nodes(here, min) + hopeless);
  }
  state.timers.rival.reset();
  if (here >= target_size(turn) && !waits_for_better(turn) && !waits_for_own(turn)) {
    return next::Opening{};
  }
  if (here < min) {
    state.timers.window.reset();
    if (std::has_single_bit(here)) {  // at 1, 2, 4, … nodes: not a line for each
      turn.say(Level::info,
               "waiting for nodes: " + std::to_string(here) + " of at least " + std::to_string(min) + ", for at most " +
                   seconds_text(turn.policy.join_timeout),
               "waiting");
    }
    return stay;
  }
  if (!state.timers.window) {
    state.timers.window = turn.now + (state.ever_ran ? turn.policy.rejoin_window : turn.policy.join_window);
    turn.say(Level::info,
             of_nodes(here, turn.policy.max_nodes) + ": waiting for " +
                 (here < turn.policy.max_nodes || !waits_for_own(turn) ? "more" : "the agent of this host"),
             "waiting");
  }
  return stay;
}

Next forming_tick(Turn& turn) {
  State const& state = turn.state;
  if (is_due(state.timers.window, turn.now)) {
    return next::Opening{};
  }
  if (is_due(state.timers.rival, turn.now)) {
    return consider_forming(turn);
  }
  if (!is_due(state.timers.join, turn.now)) {
    return stay;
  }
  std::string const missing = missing_indices(state, turn.policy);
  return give_up(turn, of_nodes(state.roster.present.size(), turn.policy.min_nodes) + " came within " +
                           seconds_text(turn.policy.join_timeout) +
                           (missing.empty() ? "" : "; missing: node " + missing));
}

Next abandoned(Turn& turn) {
  State const& state = turn.state;
  bool const waits = state.phase == Phase::forming && state.timers.rival && turn.now < *state.timers.rival;
  if (!turn.policy.ends_when_empty || !state.roster.present.empty() || state.phase == Phase::finished || waits) {
    return stay;
  }
  if (state.group.stop.kind == StopKind::user) {
    return next::Finished{told_to_end(state, turn.policy)};
  }
  return give_up(turn, "nobody is left");
}

}  // namespace cxxrun::rendezvous
