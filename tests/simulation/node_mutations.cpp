// Rules of the agent broken on purpose, between its core and the world.
#include "tests/simulation/job.hpp"
#include "tests/simulation/node.hpp"

namespace cxxrun::simulation {

namespace rdzv = cxxrun::rendezvous;

/// Before the core sees an event.
void Node::mutate(agent::Event& event) {
  auto& following = state.follower;
  auto* const from = std::get_if<agent::FromLink>(&event);
  switch (job.schedule.mutation) {
    case Mutation::forget_promise:
      if (from != nullptr && (std::holds_alternative<rdzv::VoteRequest>(from->message) ||
                              std::holds_alternative<rdzv::Propose>(from->message))) {
        following.acceptor.promised = rdzv::Ballot{1, 0};
      }
      break;
    case Mutation::same_member_again:
      if (std::holds_alternative<agent::LinkDown>(event)) {  // it starts again, and calls again with its old seat
        following.acceptor.promised = {};
        following.acceptor.accepted.reset();
        following.promised_to.clear();
      }
      break;
    case Mutation::reset_is_death:
      if (auto* const down = std::get_if<agent::LinkDown>(&event)) {
        down->ended = rdzv::Ended::in_order;
      } else if (auto* const failed = std::get_if<agent::LinkFailed>(&event)) {
        failed->refused = true;
      }
      break;
    case Mutation::stalled_keeps_lease:
      if (std::holds_alternative<agent::Tick>(event) && state.lease && *state.lease <= job.clock(host)) {
        state.lease = job.clock(host) + policy.lease.lease;
      }
      break;
    default: break;
  }
}

/// What the shell fills in; and before anybody else sees a message.
void Node::mutate(rdzv::ToCoordinator& message) {
  if (auto* const follower_info = std::get_if<rdzv::FollowerInfo>(&message)) {
    follower_info->node = info;
  }
  if (auto* const vote = std::get_if<rdzv::Vote>(&message); vote && job.mutated(Mutation::forget_accepted)) {
    vote->accepted.reset();
  }
}

}  // namespace cxxrun::simulation
