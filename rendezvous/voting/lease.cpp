#include "rendezvous/voting/lease.hpp"

#include <algorithm>
#include <vector>

namespace cxxrun::rendezvous {
namespace {

/// The newest time that a quorum has echoed. Under Tie::rank, rank 0 counts for more than the others: it may take fewer
/// of them together with it.
std::optional<TimePoint> newest_kept(Authority const& authority, Decree const& decree) {
  std::vector<TimePoint> others;
  others.reserve(authority.echoed.size());
  std::optional<TimePoint> first;
  for (auto const& [rank, at] : authority.echoed) {
    if (rank == 0) {
      first = at;
    } else if (rank < decree.size) {
      others.push_back(at);
    }
  }
  std::size_t const without = decree.size / 2 + 1;  // others needed without rank 0
  std::size_t const beside = decree.tie == Tie::rank ? (decree.size + 1) / 2 - 1 : decree.size / 2;  // with rank 0
  auto const nth = [&](std::size_t count) -> std::optional<TimePoint> {
    if (count > others.size()) {
      return std::nullopt;
    }
    if (count == 0) {
      return TimePoint::max();
    }
    auto const at = others.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(others.begin(), at, others.end(), std::greater<>());
    return *at;
  };
  std::optional<TimePoint> best = nth(without);
  if (auto const others_at = nth(beside); first && others_at) {
    TimePoint const together = std::min(*first, *others_at);
    best = best ? std::max(*best, together) : together;
  }
  return best;
}

}  // namespace

LeaseTerms lease_terms(Millis heartbeat_timeout) {
  auto const t = std::max<Millis::rep>(heartbeat_timeout.count(), 0);
  LeaseTerms terms;
  terms.timeout = Millis{t};
  terms.lease = Millis{t * 8 / 10};
  terms.beat = Millis{t / 10};
  terms.kill = Millis{t * 19 / 100};
  // Clock rates may differ by rho = 0.001 in either direction.
  terms.fence = Millis{((terms.lease + terms.kill).count() * 1001 + 998) / 999};
  return terms;
}

void echoed(Authority& authority, std::uint32_t group_rank, TimePoint own_send_time) {
  auto const [it, first] = authority.echoed.emplace(group_rank, own_send_time);
  if (!first) {
    it->second = std::max(it->second, own_send_time);
  }
}

std::optional<TimePoint> authority_until(Authority const& authority, Decree const& decree, LeaseTerms const& terms) {
  if (decree.tie == Tie::none || terms.timeout <= Millis{0}) {
    return TimePoint::max();
  }
  auto const since = newest_kept(authority, decree);
  return since ? std::optional{*since + terms.lease} : std::nullopt;
}

}  // namespace cxxrun::rendezvous
