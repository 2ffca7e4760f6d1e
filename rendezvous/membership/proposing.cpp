#include "rendezvous/membership/proposing.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/books.hpp"
#include "rendezvous/membership/callers.hpp"
#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/electing.hpp"
#include "rendezvous/membership/granting.hpp"

namespace cxxrun::rendezvous {
namespace {

std::string round_of(Ballot const& ballot) {
  return "round " + std::to_string(ballot.round) + " of node " + std::to_string(ballot.rank);
}

/// Half of the acceptances is all that there will be once every voter that is connected has answered.
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

/// Its members vote from now on: `voters` are to be filled again.
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

Next begin_deciding(Turn& turn) {
  State& state = turn.state;
  state.timers.answer.reset();
  bool const nobody_votes = state.proposer.proposal->after == 0 || !rivalled(state, turn.policy);
  return nobody_votes ? Next{next::Decided{}} : Next{next::Proposing{}};
}

Next begin(Turn& turn, next::Proposing const& /*what*/) {
  turn.state.timers.answer = turn.now + turn.policy.ack_timeout;
  return follow(turn, propose(turn.state.proposer));
}

Next count_acceptances(Turn& turn) {
  return turn.state.phase == Phase::proposing ? follow(turn, count(turn.state.proposer)) : Next{stay};
}

Next hear_accepted(Turn& turn, AgentId agent, Accepted const& message) {
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

Next hear(Turn& turn, Fenced const& event) {
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

}  // namespace cxxrun::rendezvous
