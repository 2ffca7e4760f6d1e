#include "rendezvous/membership/proposing.hpp"

#include <algorithm>

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

void claim_fence(Turn& turn) {
  Mandate& mandate = turn.state.mandate;
  mandate.claiming = true;
  turn.act(ClaimFence{AcceptedDecree{mandate.ballot, *mandate.proposal}});
}

void send_proposal(Turn& turn) {
  Mandate& mandate = turn.state.mandate;
  mandate.proposed = true;
  for (auto const& [agent, rank] : mandate.voters) {
    turn.act(Tell{agent, Propose{mandate.ballot, *mandate.proposal}});
  }
}

}  // namespace

Next begin_deciding(Turn& turn) {
  State& state = turn.state;
  state.answer_deadline.reset();
  bool const nobody_votes = state.mandate.proposal->after == 0 || !rivalled(state, turn.policy);
  return nobody_votes ? Next{next::Decided{}} : Next{next::Proposing{}};
}

void begin_proposing(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  state.answer_deadline = turn.now + turn.policy.ack_timeout;
  mandate.accepted.clear();
  mandate.claimed = mandate.proposed = false;
  if (mandate.halved) {
    claim_fence(turn);
  } else {
    send_proposal(turn);
  }
}

Next count_acceptances(Turn& turn) {
  Mandate& mandate = turn.state.mandate;
  if (turn.state.phase != Phase::proposing || !mandate.proposed || mandate.claiming) {
    return stay;
  }
  Majority const got = mandate.pair && !mandate.accepted.empty() ? Majority::yes : acceptance(mandate);
  if (got == Majority::yes || (got == Majority::half && mandate.claimed)) {
    return next::Decided{};
  }
  bool const all_answered =
      got == Majority::half && std::all_of(mandate.voters.begin(), mandate.voters.end(),
                                           [&](auto const& voter) { return mandate.accepted.contains(voter.second); });
  if (all_answered) {
    claim_fence(turn);
  }
  return stay;
}

Next hear_accepted(Turn& turn, AgentId agent, Accepted const& message) {
  Mandate& mandate = turn.state.mandate;
  auto const voter = mandate.voters.find(agent);
  if (voter == mandate.voters.end() || message.after != mandate.decided.number) {
    turn.say(Level::debug, "ignored: an acceptance after generation " + std::to_string(message.after));
    return stay;
  }
  if (message.promised > mandate.ballot) {
    return next::Deposed{"a member follows " + round_of(message.promised)};
  }
  if (turn.state.phase == Phase::proposing && message.ballot == mandate.ballot && message.promised == mandate.ballot) {
    mandate.accepted.insert(voter->second);
    return count_acceptances(turn);
  }
  return stay;
}

Next hear_fenced(Turn& turn, Fenced const& event) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  if (state.phase != Phase::proposing || !mandate.claiming || event.after != mandate.decided.number) {
    return stay;
  }
  mandate.claiming = false;
  if (!event.holds || event.holds->decree != *mandate.proposal) {
    // Nothing else can be decided here any more, in no round: whoever is left on this side ends.
    auto const generation = "generation " + std::to_string(event.after);
    return next::Finished{make_verdict(state, turn.policy, End::partitioned, kExitPartitioned,
                                       event.holds
                                           ? "the fence after " + generation + " belongs to other nodes"
                                           : "the fence after " + generation + " cannot be claimed: " + event.why)};
  }
  mandate.claimed = true;
  if (mandate.proposed) {
    return count_acceptances(turn);
  }
  send_proposal(turn);
  return stay;
}

Next begin_decided(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  if (mandate.adopted) {
    return follow_adopted(turn);
  }
  state.vanished += static_cast<std::uint32_t>(mandate.missing.size());
  mandate.missing.clear();
  mandate.rivals = mandate.rivals || mandate.survives || mandate.taking_over();
  note_decided(mandate);
  count_afresh(turn);
  dismiss(turn);
  drop_late_electors(turn, "generation " + std::to_string(state.number) + " was decided without you");
  bool const complete = std::all_of(state.seats.begin(), state.seats.end(),
                                    [&](Seat const& seat) { return state.present.contains(seat.agent); });
  return complete ? Next{next::Gated{}} : Next{next::FormingAgain{}};
}

}  // namespace cxxrun::rendezvous
