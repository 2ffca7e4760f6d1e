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
  Leadership& leadership = turn.state.leadership;
  leadership.claiming = true;
  turn.act(ClaimFence{AcceptedDecree{leadership.ballot, *leadership.proposal}});
}

void send_proposal(Turn& turn) {
  Leadership& leadership = turn.state.leadership;
  leadership.proposed = true;
  for (auto const& [agent, rank] : leadership.voters) {
    turn.act(Tell{agent, Propose{leadership.ballot, *leadership.proposal}});
  }
}

}  // namespace

Next begin_deciding(Turn& turn) {
  State& state = turn.state;
  state.answer_deadline.reset();
  bool const nobody_votes = state.leadership.proposal->after == 0 || !rivalled(state, turn.policy);
  return nobody_votes ? Next{next::Decided{}} : Next{next::Proposing{}};
}

void begin_proposing(Turn& turn) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  state.answer_deadline = turn.now + turn.policy.ack_timeout;
  leadership.accepted.clear();
  leadership.claimed = leadership.proposed = false;
  if (leadership.halved) {
    claim_fence(turn);
  } else {
    send_proposal(turn);
  }
}

Next count_acceptances(Turn& turn) {
  Leadership& leadership = turn.state.leadership;
  if (turn.state.phase != Phase::proposing || !leadership.proposed || leadership.claiming) {
    return stay;
  }
  Majority const got = leadership.pair && !leadership.accepted.empty() ? Majority::yes : acceptance(leadership);
  if (got == Majority::yes || (got == Majority::half && leadership.claimed)) {
    return next::Decided{};
  }
  bool const all_answered = got == Majority::half &&
                            std::all_of(leadership.voters.begin(), leadership.voters.end(),
                                        [&](auto const& voter) { return leadership.accepted.contains(voter.second); });
  if (all_answered) {
    claim_fence(turn);
  }
  return stay;
}

Next hear_accepted(Turn& turn, AgentId agent, Accepted const& message) {
  Leadership& leadership = turn.state.leadership;
  auto const voter = leadership.voters.find(agent);
  if (voter == leadership.voters.end() || message.after != leadership.decided.number) {
    turn.say(Level::debug, "ignored: an acceptance after generation " + std::to_string(message.after));
    return stay;
  }
  if (message.promised > leadership.ballot) {
    return next::Deposed{"a member follows " + round_of(message.promised)};
  }
  if (turn.state.phase == Phase::proposing && message.ballot == leadership.ballot &&
      message.promised == leadership.ballot) {
    leadership.accepted.insert(voter->second);
    return count_acceptances(turn);
  }
  return stay;
}

Next hear_fenced(Turn& turn, Fenced const& event) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  if (state.phase != Phase::proposing || !leadership.claiming || event.after != leadership.decided.number) {
    return stay;
  }
  leadership.claiming = false;
  if (!event.holds || event.holds->decree != *leadership.proposal) {
    // Nothing else can be decided here any more, in no round: whoever is left on this side ends.
    auto const generation = "generation " + std::to_string(event.after);
    return next::Finished{make_verdict(state, turn.policy, End::partitioned, kExitPartitioned,
                                       event.holds
                                           ? "the fence after " + generation + " belongs to other nodes"
                                           : "the fence after " + generation + " cannot be claimed: " + event.why)};
  }
  leadership.claimed = true;
  if (leadership.proposed) {
    return count_acceptances(turn);
  }
  send_proposal(turn);
  return stay;
}

Next begin_decided(Turn& turn) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  if (leadership.adopted) {
    return campaign_after_adopted(turn);
  }
  state.vanished += static_cast<std::uint32_t>(leadership.missing.size());
  leadership.missing.clear();
  leadership.rivals = leadership.rivals || leadership.survives || leadership.taking_over();
  note_decided(leadership);
  count_afresh(turn);
  dismiss(turn);
  drop_late_followers(turn, "generation " + std::to_string(state.number) + " was decided without you");
  bool const complete = std::all_of(state.seats.begin(), state.seats.end(),
                                    [&](Seat const& seat) { return state.present.contains(seat.agent); });
  return complete ? Next{next::LeaseWait{}} : Next{next::FormingAgain{}};
}

}  // namespace cxxrun::rendezvous
