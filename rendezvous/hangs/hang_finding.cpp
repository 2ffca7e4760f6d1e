#include "rendezvous/hangs/hang_finding.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace cxxrun::rendezvous {
namespace {

using Seen = HangState::Seen;
using Member = HangGroup::Member;

Millis still_for(Seen const& seen, TimePoint now) {
  return std::chrono::duration_cast<Millis>(now - seen.since);
}

/// In one of PyTorch's groups it is not known who is inside, but for one that is in no collective.
bool inside(Standstill const& figures, std::uint64_t group) {
  return group == kDefaultGroup ? inside(figures) : !figures.idle;
}

HangFinding find_in(std::uint64_t group, HangGroups const& groups, TimePoint now, Millis limit, Millis blur) {
  HangFinding found;
  found.group = group;
  auto const& members = groups.all().at(group).members;
  for (auto const& [seen, begun] : members) {
    found.members.push_back(seen->last.rank);
    if (inside(seen->last, group) && !seen->last.halted && still_for(*seen, now) >= limit) {
      found.sequence = std::max(found.sequence, begun);
    }
  }
  for (auto const& [seen, begun] : members) {
    if (found.sequence == 0 || still_for(*seen, now) < limit - blur) {
      continue;
    }
    bool const here = inside(seen->last, group) && begun == found.sequence;
    if (here && !seen->last.halted) {
      found.waiting.push_back(seen);
      found.longest = std::max(found.longest, still_for(*seen, now));
    } else if ((begun < found.sequence || here) && (seen->last.halted || !groups.may_wait(seen->last, group))) {
      found.late.push_back({seen, begun});
    }
  }
  std::stable_sort(found.late.begin(), found.late.end(),
                   [](Member const& a, Member const& b) { return a.begun < b.begun; });
  // Who is inside an older one than the others waits for those that are further behind.
  auto const furthest = found.late.empty() ? 0 : found.late.front().begun;
  std::erase_if(found.late, [&](Member const& each) {
    return inside(each.seen->last, group) && !each.seen->last.halted && each.begun > furthest;
  });
  return found;
}

}  // namespace

HangFinding find_hang(HangState const& state, std::uint32_t world, TimePoint now, Millis limit, Millis blur) {
  HangGroups const groups(state, world, now - (limit - blur));
  auto found = find_in(kDefaultGroup, groups, now, limit, blur);
  if (groups.all().size() == 1 || (!found.late.empty() && found.late.front().begun < found.sequence)) {
    return found;
  }
  for (auto each = std::next(groups.all().begin()); each != groups.all().end(); ++each) {
    if (auto in_group = find_in(each->first, groups, now, limit, blur); !in_group.late.empty()) {
      return in_group;
    }
  }
  for (auto const& [rank, seen] : state.ranks) {
    if (found.late.empty() && still_for(seen, now) >= limit && groups.is_behind_where_all_stand(seen.last)) {
      found.crossed.push_back(&seen);
      found.longest = std::max(found.longest, still_for(seen, now));
    }
  }
  return found;
}

}  // namespace cxxrun::rendezvous
