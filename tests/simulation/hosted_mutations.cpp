// Rules of the coordinator broken on purpose, between its core and the world.
#include <set>

#include "rendezvous/membership/state.hpp"
#include "tests/simulation/hosted.hpp"
#include "tests/simulation/job.hpp"

namespace cxxrun::simulation {

namespace rdzv = cxxrun::rendezvous;

/// Before the core sees an event.
void Hosted::mutate(rdzv::Event& event) {
  auto* const said = std::get_if<rdzv::Said>(&event);
  if (said == nullptr) {
    return;
  }
  auto* const vote = std::get_if<rdzv::Vote>(&said->message);
  if (vote != nullptr && job_.mutated(Mutation::vote_silent_long)) {
    vote->silent_for = job_.schedule.timeout();
  }
  auto const* const ack = std::get_if<rdzv::Ack>(&said->message);
  if (ack != nullptr && job_.mutated(Mutation::start_undecided)) {
    if (auto const it = peers_.find(said->agent); it != peers_.end()) {
      job_.network.send(it->second.end, rdzv::ToAgent(rdzv::Start{ack->number, ack->sent, job_.schedule.timeout()}));
    }
  }
}

void Hosted::take_for_all(std::set<std::uint32_t>& ranks) const {
  for (std::uint32_t rank = 0; rank < state_->proposer.decided.size; ++rank) {
    ranks.insert(rank);
  }
}

/// The members of the last generation that are alive and know of no later one.
std::size_t Hosted::left_alive() const {
  std::size_t alive = 0;
  for (auto const& node : job_.nodes) {
    auto const& known = node->state.follower.decided;
    alive += node->running() && known.rank && known.decree.number == state_->proposer.decided.number ? 1 : 0;
  }
  return alive;
}

/// And the state that it sees it in.
void Hosted::mutate_state() {
  auto& state = *state_;
  auto& proposer = state.proposer;
  bool const electing = state.phase == rdzv::Phase::electing;
  auto& counted = electing ? proposer.promised : proposer.accepted;
  bool const counts = electing || state.phase == rdzv::Phase::proposing;
  switch (job_.schedule.mutation) {
    case Mutation::skip_lease_wait: state.leases.outstanding.clear(); break;
    case Mutation::no_quorum:
      if (counts) {
        take_for_all(counted);
      }
      break;
    case Mutation::shrink_denominator:
      if (counts && 2 * (counted.size() + 1) > left_alive()) {  // with the one that is coming
        take_for_all(counted);
      }
      break;
    case Mutation::grant_without_quorum:
      for (std::uint32_t rank = 0; rank < proposer.decided.size; ++rank) {
        state.leases.authority.echoed[rank] = job_.clock(node_.host);
      }
      break;
    case Mutation::watch_from_beats:
      std::erase_if(state.silence.heard, [&](auto const& entry) { return entry.second > job_.clock(node_.host); });
      break;
    case Mutation::count_locally:
      if (electing) {
        state.restarts.consumed = 0;
      }
      break;
    case Mutation::start_at_once: state.timers.restart.reset(); break;
    case Mutation::forget_failures:
      if (electing) {
        state.restarts.streak = {};
      }
      break;
    case Mutation::forget_account:
      if (electing) {
        rdzv::inherit(state.ledger, {}, std::nullopt, job_.clock(node_.host));
      }
      break;
    default: break;
  }
  bool const miscounts = job_.mutated(Mutation::no_quorum) || job_.mutated(Mutation::shrink_denominator);
  if (miscounts && proposer.taking_over() && state.phase != rdzv::Phase::proposing) {
    proposer.accepted = proposer.promised;  // what it is elected by, it goes on by
  }
}

}  // namespace cxxrun::simulation
