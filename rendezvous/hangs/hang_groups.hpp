// HangGroups: who may be waiting for another rank in a group of theirs. Pure.
//
// PyTorch counts what a rank has begun in each of its groups, and rarely tells what is done. So a rank that is behind
// in one group may be waiting in another, for a rank that is behind there. Only one that waits for nobody is to be
// blamed.
//
// Cost: O(G log G) to make, where G is the number of groups of all ranks that stand still; O(log G) for each answer and
// group.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "rendezvous/hangs/hang_state.hpp"

namespace cxxrun::rendezvous {

/// The generation's first Communicator, whose size is the world's; PyTorch calls it so.
inline constexpr std::uint64_t kDefaultGroup = 0;

struct HangGroup {
  struct Member {
    HangState::Seen const* seen = nullptr;
    std::uint64_t begun = 0;  ///< collectives of this group
  };
  std::vector<Member> members;       ///< that tell of it, in their order
  std::vector<std::uint64_t> still;  ///< what those have begun that stand still, the least first
};

class HangGroups {
 public:
  /// `still`: who has not moved since then counts as standing still. `world`: ranks there are. Points into `state`.
  HangGroups(HangState const& state, std::uint32_t world, TimePoint still);

  /// The default group is the first.
  [[nodiscard]] std::map<std::uint64_t, HangGroup> const& all() const { return groups_; }
  /// It may be waiting for somebody in a group in which it has begun anything: not all members stand still with as many
  /// begun there as it has itself. `judged_by`: the group in which it is behind. In the default group that shows
  /// without asking.
  [[nodiscard]] bool may_wait(Standstill const& figures, std::uint64_t judged_by) const;
  /// All ranks stand still, and this one has begun less than others in a group of its own.
  [[nodiscard]] bool is_behind_where_all_stand(Standstill const& figures) const;

 private:
  std::map<std::uint64_t, HangGroup> groups_;
  std::uint32_t world_;
};

}  // namespace cxxrun::rendezvous
