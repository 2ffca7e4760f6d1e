#include "rendezvous/membership/mandate.hpp"

#include <algorithm>

namespace cxxrun::rendezvous {

void prove_stopped(Mandate& mandate, std::uint64_t number, std::uint32_t group_rank) {
  mandate.unproven.erase(Held{number, group_rank});
}

std::optional<TimePoint> gate(Mandate const& mandate, TimePoint now) {
  std::optional<TimePoint> latest;
  for (auto const& [held, at] : mandate.unproven) {
    if (at > now && (!latest || at > *latest)) {
      latest = at;
    }
  }
  return latest;
}

Majority acceptance(Mandate const& mandate) {
  return majority(mandate.decided, mandate.accepted);
}

void note_decided(Mandate& mandate) {
  if (!mandate.proposal) {
    return;
  }
  mandate.decided = *mandate.proposal;
  mandate.proposal.reset();
  mandate.successors.clear();
  if (!mandate.adopted) {
    mandate.successors.swap(mandate.proposed_successors);
  }
  mandate.adopted = mandate.halved = mandate.claiming = mandate.claimed = mandate.proposed = mandate.pair = false;
  mandate.ballot = Ballot{1, mandate.decided.coordinator};
  mandate.voters.clear();
  mandate.promised.clear();
  mandate.highest.reset();
  mandate.accepted.clear();
  mandate.tries = 0;
  mandate.authority = {};
  mandate.until.reset();
  mandate.counted_at.reset();
}

}  // namespace cxxrun::rendezvous
