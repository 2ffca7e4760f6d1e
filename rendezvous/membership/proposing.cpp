#include "rendezvous/membership/proposing.hpp"

#include <algorithm>

#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/electing.hpp"
#include "rendezvous/membership/granting.hpp"
#include "rendezvous/membership/leaving.hpp"

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

/// The members of the generation before have decided, or nobody had to.
void decide(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  if (mandate.adopted) {
    follow_adopted(turn);
    return;
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
  if (!complete) {
    form_again(turn);
    return;
  }
  state.phase = Phase::gated;
  try_start(turn);
  if (state.phase == Phase::gated && !mandate.unproven.empty()) {
    turn.say(Level::info, "generation " + std::to_string(state.number) + " waits until no older worker can be alive");
  }
}

}  // namespace

void begin_deciding(Turn& turn) {
  State& state = turn.state;
  state.answer_deadline.reset();
  if (state.mandate.proposal->after == 0 || !rivalled(state, turn.policy)) {
    decide(turn);
    return;
  }
  propose(turn);
}

void propose(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  state.phase = Phase::proposing;
  state.answer_deadline = turn.now + turn.policy.ack_timeout;
  mandate.accepted.clear();
  mandate.claimed = mandate.proposed = false;
  if (mandate.halved) {
    claim_fence(turn);
    return;
  }
  mandate.proposed = true;
  for (auto const& [agent, rank] : mandate.voters) {
    turn.act(Tell{agent, Propose{mandate.ballot, *mandate.proposal}});
  }
}

void count_acceptances(Turn& turn) {
  Mandate& mandate = turn.state.mandate;
  if (turn.state.phase != Phase::proposing || !mandate.proposed || mandate.claiming) {
    return;
  }
  Majority const got = mandate.pair && !mandate.accepted.empty() ? Majority::yes : acceptance(mandate);
  if (got == Majority::yes || (got == Majority::half && mandate.claimed)) {
    decide(turn);
    return;
  }
  bool const all_answered =
      got == Majority::half && std::all_of(mandate.voters.begin(), mandate.voters.end(),
                                           [&](auto const& voter) { return mandate.accepted.contains(voter.second); });
  if (all_answered) {
    claim_fence(turn);
  }
}

void hear_accepted(Turn& turn, AgentId agent, Accepted const& message) {
  Mandate& mandate = turn.state.mandate;
  auto const voter = mandate.voters.find(agent);
  if (voter == mandate.voters.end() || message.after != mandate.decided.number) {
    turn.say(Level::debug, "ignored: an acceptance after generation " + std::to_string(message.after));
    return;
  }
  if (message.promised > mandate.ballot) {
    stand_down(turn, "a member follows " + round_of(message.promised));
    return;
  }
  if (turn.state.phase == Phase::proposing && message.ballot == mandate.ballot && message.promised == mandate.ballot) {
    mandate.accepted.insert(voter->second);
    count_acceptances(turn);
  }
}

void hear_fenced(Turn& turn, Fenced const& event) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  if (state.phase != Phase::proposing || !mandate.claiming || event.after != mandate.decided.number) {
    return;
  }
  mandate.claiming = false;
  if (!event.holds || event.holds->decree != *mandate.proposal) {
    // Nothing else can be decided here any more, in no round: whoever is left on this side ends.
    auto const generation = "generation " + std::to_string(event.after);
    conclude(turn, make_verdict(state, turn.policy, End::partitioned, kExitPartitioned,
                                event.holds ? "the fence after " + generation + " belongs to other nodes"
                                            : "the fence after " + generation + " cannot be claimed: " + event.why));
    return;
  }
  mandate.claimed = true;
  if (mandate.proposed) {
    count_acceptances(turn);
    return;
  }
  mandate.proposed = true;
  for (auto const& [agent, rank] : mandate.voters) {
    turn.act(Tell{agent, Propose{mandate.ballot, *mandate.proposal}});
  }
}

void try_start(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  if (state.phase != Phase::gated) {
    return;
  }
  std::erase_if(mandate.unproven, [&](auto const& entry) { return entry.second <= turn.now; });
  state.answer_deadline = gate(mandate, turn.now);
  if (!mandate.unproven.empty()) {
    return;
  }
  if (leases_on(turn.policy) && left(turn, Count::lazily) <= Millis{0}) {
    return;  // the next beats bring it
  }
  begin_running(turn);
}

}  // namespace cxxrun::rendezvous
