#include "rendezvous/voting/acceptor.hpp"

#include <utility>

namespace cxxrun::rendezvous {

Answer on_vote_request(Acceptor acceptor, std::uint64_t after, Ballot ballot) {
  if (after != acceptor.after || ballot.round < kFirstElectedRound || ballot < acceptor.promised) {
    return {acceptor, false};
  }
  acceptor.promised = ballot;
  return {acceptor, true};
}

Answer on_proposal(Acceptor acceptor, Ballot ballot, Decree const& decree) {
  bool const ours = decree.after == acceptor.after && decree.number > decree.after && ballot.round > 0;
  if (!ours || ballot < acceptor.promised) {
    return {acceptor, false};
  }
  // With two decrees under one ballot, two majorities could decide differently.
  if (acceptor.accepted && acceptor.accepted->ballot == ballot && acceptor.accepted->decree != decree) {
    return {acceptor, false};
  }
  acceptor.promised = ballot;
  acceptor.accepted = AcceptedDecree{ballot, decree};
  return {acceptor, true};
}

Acceptor on_decided(Acceptor acceptor, std::uint64_t number) {
  return number <= acceptor.after ? std::move(acceptor) : Acceptor{number, {}, {}};
}

}  // namespace cxxrun::rendezvous
