#include "rendezvous/hangs/hang_groups.hpp"

#include <algorithm>

namespace cxxrun::rendezvous {
namespace {

/// The default one first.
std::vector<worker::GroupCount> groups_of(Standstill const& figures, std::uint32_t world) {
  std::vector<worker::GroupCount> all{{kDefaultGroup, figures.entered, world}};
  all.insert(all.end(), figures.groups.begin(), figures.groups.end());
  return all;
}

}  // namespace

HangGroups::HangGroups(HangState const& state, std::uint32_t world, TimePoint still)
    : groups_{{kDefaultGroup, {}}}, world_(world) {
  for (auto const& [rank, seen] : state.ranks) {
    for (auto const& each : groups_of(seen.last, world)) {
      auto& group = groups_[each.id];
      group.members.push_back({&seen, each.begun});
      if (seen.since <= still) {
        group.still.push_back(each.begun);
      }
    }
  }
  for (auto& [id, group] : groups_) {
    std::sort(group.still.begin(), group.still.end());
  }
}

bool HangGroups::may_wait(Standstill const& figures, std::uint64_t judged_by) const {
  auto const misses_some = [&](worker::GroupCount const& each) {
    auto const& still = groups_.at(each.id).still;
    auto const there = still.end() - std::lower_bound(still.begin(), still.end(), each.begun);
    bool const shows = each.id == kDefaultGroup && judged_by == kDefaultGroup;
    return !shows && each.begun > 0 && static_cast<std::uint64_t>(there) < each.size;
  };
  auto const all = groups_of(figures, world_);
  return !figures.idle && std::any_of(all.begin(), all.end(), misses_some);
}

bool HangGroups::is_behind_where_all_stand(Standstill const& figures) const {
  auto const is_behind = [this](worker::GroupCount const& each) {
    auto const& still = groups_.at(each.id).still;
    return !still.empty() && still.back() > each.begun;
  };
  auto const all = groups_of(figures, world_);
  return groups_.at(kDefaultGroup).still.size() == world_ && std::any_of(all.begin(), all.end(), is_behind);
}

}  // namespace cxxrun::rendezvous
