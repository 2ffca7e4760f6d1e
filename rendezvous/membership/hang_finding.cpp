#include "rendezvous/membership/hang_finding.hpp"

#include <algorithm>
#include <chrono>

namespace cxxrun::rendezvous {
namespace {

using Seen = HangState::Seen;

Millis still_for(Seen const& seen, TimePoint now) {
  return std::chrono::duration_cast<Millis>(now - seen.since);
}

/// In one of PyTorch's groups it is not known who is inside, but for one that is in no collective.
bool inside(Standstill const& figures, std::uint64_t group) {
  return group == kDefaultGroup ? inside(figures) : !figures.idle;
}

/// The newest collective of the group that somebody has waited in for the limit; 0: there is none.
std::uint64_t newest(HangState const& state, std::uint64_t group, TimePoint now, Millis limit) {
  std::uint64_t sequence = 0;
  for (auto const& [rank, seen] : state.ranks) {
    if (inside(seen.last, group) && !seen.last.halted && still_for(seen, now) >= limit) {
      sequence = std::max(sequence, begun_in(group, seen.last).value_or(0));
    }
  }
  return sequence;
}

HangFinding find_in(std::uint64_t group, HangState const& state, HangGroups const& groups, TimePoint now, Millis limit,
                    Millis blur) {
  HangFinding found;
  found.group = group;
  found.sequence = newest(state, group, now, limit);
  for (auto const& [rank, seen] : state.ranks) {
    auto const begun = begun_in(group, seen.last);
    if (found.sequence == 0 || !begun || still_for(seen, now) < limit - blur) {
      continue;
    }
    bool const here = inside(seen.last, group) && *begun == found.sequence;
    if (here && !seen.last.halted) {
      found.waiting.push_back(&seen);
      found.longest = std::max(found.longest, still_for(seen, now));
    } else if ((*begun < found.sequence || here) && (seen.last.halted || !groups.may_wait(seen.last, group))) {
      found.late.push_back(&seen);
    }
  }
  std::stable_sort(found.late.begin(), found.late.end(),
                   [&](Seen const* a, Seen const* b) { return found.begun_by(*a) < found.begun_by(*b); });
  // Who is inside an older one than the others waits for those that are further behind.
  auto const furthest = found.late.empty() ? 0 : found.begun_by(*found.late.front());
  std::erase_if(found.late, [&](Seen const* seen) {
    return inside(seen->last, group) && !seen->last.halted && found.begun_by(*seen) > furthest;
  });
  return found;
}

}  // namespace

HangFinding find_hang(HangState const& state, std::uint32_t world, TimePoint now, Millis limit, Millis blur) {
  HangGroups const groups(state, world, now - (limit - blur));
  auto found = find_in(kDefaultGroup, state, groups, now, limit, blur);
  bool const is_late = !found.late.empty() && found.begun_by(*found.late.front()) < found.sequence;
  auto const all = is_late ? std::vector<std::uint64_t>{} : groups.all();
  for (auto const group : all) {
    if (auto in_group = find_in(group, state, groups, now, limit, blur); !in_group.late.empty()) {
      in_group.members = groups.members(group);
      return in_group;
    }
  }
  for (auto const& [rank, seen] : state.ranks) {
    if (found.late.empty() && !all.empty() && groups.is_behind_where_all_stand(seen.last) &&
        still_for(seen, now) >= limit) {
      found.crossed.push_back(&seen);
      found.longest = std::max(found.longest, still_for(seen, now));
    }
  }
  return found;
}

}  // namespace cxxrun::rendezvous
