#include "rendezvous/membership/hang_groups.hpp"

#include <algorithm>

namespace cxxrun::rendezvous {

std::optional<std::uint64_t> begun_in(std::uint64_t group, Standstill const& figures) {
  if (group == kDefaultGroup) {
    return figures.entered;
  }
  auto const place = std::find_if(figures.groups.begin(), figures.groups.end(),
                                  [group](worker::GroupCount const& each) { return each.id == group; });
  return place == figures.groups.end() ? std::nullopt : std::optional(place->begun);
}

HangGroups::HangGroups(HangState const& state, std::uint32_t world, TimePoint still) : world_(world) {
  for (auto const& [rank, seen] : state.ranks) {
    bool const stands = seen.since <= still;
    auto const note = [&, rank = rank](std::uint64_t group, std::uint64_t begun) {
      groups_[group].ranks.push_back(rank);
      if (stands) {
        groups_[group].begun.push_back(begun);
      }
    };
    note(kDefaultGroup, seen.last.entered);
    for (auto const& each : seen.last.groups) {
      note(each.id, each.begun);
    }
  }
  for (auto& [id, group] : groups_) {
    std::sort(group.begun.begin(), group.begun.end());
  }
}

std::vector<std::uint64_t> HangGroups::all() const {
  std::vector<std::uint64_t> ids;
  for (auto const& [id, group] : groups_) {
    if (id != kDefaultGroup) {
      ids.push_back(id);
    }
  }
  return ids;
}

bool HangGroups::some_miss(std::uint64_t group, std::uint64_t begun, std::uint64_t size) const {
  auto const& all = groups_.at(group).begun;
  return static_cast<std::uint64_t>(all.end() - std::lower_bound(all.begin(), all.end(), begun)) < size;
}

bool HangGroups::may_wait(Standstill const& figures, std::uint64_t judged_by) const {
  if (figures.idle) {
    return false;
  }
  bool const in_default = judged_by != kDefaultGroup && figures.entered > 0;
  return (in_default && some_miss(kDefaultGroup, figures.entered, world_)) ||
         std::any_of(figures.groups.begin(), figures.groups.end(),
                     [this](auto const& each) { return each.begun > 0 && some_miss(each.id, each.begun, each.size); });
}

bool HangGroups::is_behind_where_all_stand(Standstill const& figures) const {
  auto const is_behind = [this](std::uint64_t group, std::uint64_t begun) {
    auto const& all = groups_.at(group).begun;
    return !all.empty() && all.back() > begun;
  };
  return groups_.contains(kDefaultGroup) && groups_.at(kDefaultGroup).begun.size() == world_ &&
         (is_behind(kDefaultGroup, figures.entered) ||
          std::any_of(figures.groups.begin(), figures.groups.end(),
                      [&](auto const& each) { return is_behind(each.id, each.begun); }));
}

std::vector<std::uint32_t> HangGroups::members(std::uint64_t group) const {
  auto const place = groups_.find(group);
  return place == groups_.end() ? std::vector<std::uint32_t>{} : place->second.ranks;
}

}  // namespace cxxrun::rendezvous
