#include "rendezvous/voting/proposer.hpp"

#include <cassert>
#include <cstddef>
#include <iterator>
#include <utility>

namespace cxxrun::rendezvous {
namespace {

Outcome elect(Proposer& proposer, Right right) {
  proposer.stage = Stage::elected;
  proposer.right = right;
  if (proposer.highest) {
    proposer.proposal = proposer.highest->decree;
  }
  return Outcome::elected;
}

Outcome count_promises(Proposer& proposer) {
  if (proposer.promised.empty()) {
    return Outcome::nothing;
  }
  switch (majority(proposer.decided, proposer.promised)) {
    case Majority::no: return Outcome::nothing;
    case Majority::half: return Outcome::half;
    case Majority::yes: break;
  }
  return elect(proposer, Right::quorum);
}

Outcome count_acceptances(Proposer const& proposer) {
  if (proposer.right == Right::survivor && !proposer.accepted.empty()) {
    return Outcome::decided;
  }
  switch (majority(proposer.decided, proposer.accepted)) {
    case Majority::no: return Outcome::nothing;
    case Majority::half: return proposer.stage == Stage::fenced ? Outcome::decided : Outcome::half;
    case Majority::yes: break;
  }
  return Outcome::decided;
}

}  // namespace

Majority majority(Decree const& decree, std::set<std::uint32_t> const& members) {
  if (decree.tie == Tie::none || decree.number == 0) {
    return Majority::yes;
  }
  bool const all_known = members.empty() || *members.rbegin() < decree.size;  // the usual case needs no walk
  std::size_t const count =
      all_known ? members.size()
                : static_cast<std::size_t>(std::distance(members.begin(), members.lower_bound(decree.size)));
  if (count * 2 > decree.size) {
    return Majority::yes;
  }
  if (count * 2 < decree.size || count == 0) {
    return Majority::no;
  }
  if (decree.tie == Tie::fence) {
    return Majority::half;
  }
  return members.contains(0) ? Majority::yes : Majority::no;
}

void begin_round(Proposer& proposer, Ballot ballot) {
  give_up(proposer);
  proposer.ballot = ballot;
  proposer.stage = Stage::asking;
}

void give_up(Proposer& proposer) {
  Proposer fresh;
  fresh.decided = proposer.decided;
  proposer = std::move(fresh);
}

void hear_promise(Proposer& proposer, std::uint32_t member, std::optional<AcceptedDecree> const& accepted) {
  if (proposer.stage == Stage::asking) {
    proposer.promised.insert(member);
    if (accepted && (!proposer.highest || accepted->ballot > proposer.highest->ballot)) {
      proposer.highest = accepted;
    }
  } else if (proposer.stage == Stage::elected && !accepted) {
    proposer.promised.insert(member);
    if (majority(proposer.decided, proposer.promised) == Majority::yes && proposer.right == Right::half) {
      proposer.right = Right::quorum;  // none of this majority has accepted anything, so no fence is needed
    }
  }
}

Outcome hear_refusal(Proposer& proposer, std::uint32_t member) {
  if (proposer.stage != Stage::asking && !proposer.adopted()) {
    return Outcome::lost;
  }
  proposer.promised.erase(member);
  return Outcome::nothing;
}

Outcome hear_acceptance(Proposer& proposer, std::uint32_t member) {
  if (proposer.stage < Stage::claiming) {
    return Outcome::nothing;
  }
  proposer.accepted.insert(member);
  return count(proposer);
}

Outcome count(Proposer& proposer) {
  switch (proposer.stage) {
    case Stage::asking: return count_promises(proposer);
    case Stage::proposed:
    case Stage::fenced: return count_acceptances(proposer);
    default: return Outcome::nothing;
  }
}

Outcome half_is_all(Proposer& proposer) {
  Outcome const counted = count(proposer);
  if (counted != Outcome::half) {
    return counted;
  }
  if (proposer.stage == Stage::asking) {
    return elect(proposer, Right::half);
  }
  proposer.stage = Stage::settling;
  return Outcome::claim;
}

Outcome survive(Proposer& proposer) {
  return proposer.stage == Stage::asking ? elect(proposer, Right::survivor) : Outcome::nothing;
}

Outcome propose(Proposer& proposer) {
  if (proposer.stage != Stage::idle && proposer.stage != Stage::elected) {
    return Outcome::nothing;
  }
  proposer.accepted.clear();
  bool const half = proposer.right == Right::half;
  proposer.stage = half ? Stage::claiming : Stage::proposed;
  return half ? Outcome::claim : Outcome::send;
}

Outcome hear_fence(Proposer& proposer, std::optional<AcceptedDecree> const& holds) {
  if (proposer.stage != Stage::claiming && proposer.stage != Stage::settling) {
    return Outcome::nothing;
  }
  if (!holds || holds->decree != proposer.proposal) {
    return Outcome::partitioned;
  }
  bool const sent = std::exchange(proposer.stage, Stage::fenced) == Stage::settling;
  return sent ? count(proposer) : Outcome::send;
}

void conclude(Proposer& proposer) {
  assert(proposer.proposal);
  Proposer next;
  next.decided = *proposer.proposal;
  next.ballot = Ballot{1, next.decided.coordinator};
  proposer = std::move(next);
}

}  // namespace cxxrun::rendezvous
