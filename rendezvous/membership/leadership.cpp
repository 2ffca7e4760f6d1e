#include "rendezvous/membership/leadership.hpp"

#include <algorithm>

namespace cxxrun::rendezvous {

void prove_stopped(Leadership& leadership, std::uint64_t number, std::uint32_t group_rank) {
  leadership.outstanding_leases.erase(Held{number, group_rank});
}

std::optional<TimePoint> lease_wait(Leadership const& leadership, TimePoint now) {
  std::optional<TimePoint> latest;
  for (auto const& [held, at] : leadership.outstanding_leases) {
    if (at > now && (!latest || at > *latest)) {
      latest = at;
    }
  }
  return latest;
}

Majority acceptance(Leadership const& leadership) {
  return majority(leadership.decided, leadership.accepted);
}

void note_decided(Leadership& leadership) {
  if (!leadership.proposal) {
    return;
  }
  leadership.decided = *leadership.proposal;
  leadership.proposal.reset();
  leadership.successors.clear();
  if (!leadership.adopted) {
    leadership.successors.swap(leadership.proposed_successors);
  }
  leadership.adopted = leadership.halved = leadership.claiming = leadership.claimed = leadership.proposed =
      leadership.pair = false;
  leadership.ballot = Ballot{1, leadership.decided.coordinator};
  leadership.voters.clear();
  leadership.promised.clear();
  leadership.highest.reset();
  leadership.accepted.clear();
  leadership.tries = 0;
  leadership.authority = {};
  leadership.until.reset();
  leadership.counted_at.reset();
}

}  // namespace cxxrun::rendezvous
