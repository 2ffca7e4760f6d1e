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
#include <optional>
#include <vector>

#include "rendezvous/membership/hang_state.hpp"

namespace cxxrun::rendezvous {

/// How many collectives of that group it has begun; nothing: it is no member, or does not say. kDefaultGroup: of the
/// generation's first Communicator.
inline constexpr std::uint64_t kDefaultGroup = 0;
[[nodiscard]] std::optional<std::uint64_t> begun_in(std::uint64_t group, Standstill const& figures);

class HangGroups {
 public:
  /// `still`: since then or earlier ranks have not moved that count as standing still. `world`: ranks there are.
  HangGroups(HangState const& state, std::uint32_t world, TimePoint still);

  /// The groups that are told of but for the default one, each once.
  [[nodiscard]] std::vector<std::uint64_t> all() const;
  /// It may be waiting for somebody in a group in which it has begun anything: not all members stand still with as many
  /// begun there as it has itself. `judged_by`: the group in which it is behind. In the default group that shows
  /// without asking.
  [[nodiscard]] bool may_wait(Standstill const& figures, std::uint64_t judged_by) const;
  /// All ranks stand still, and this one has begun less than others in a group of its own.
  [[nodiscard]] bool is_behind_where_all_stand(Standstill const& figures) const;
  /// The ranks that tell of this group, in their order.
  [[nodiscard]] std::vector<std::uint32_t> members(std::uint64_t group) const;

 private:
  struct Group {
    std::vector<std::uint64_t> begun;  ///< by those that stand still, the least first
    std::vector<std::uint32_t> ranks;  ///< of all that tell of it
  };
  [[nodiscard]] bool some_miss(std::uint64_t group, std::uint64_t begun, std::uint64_t size) const;

  std::map<std::uint64_t, Group> groups_;
  std::uint32_t world_;
};

}  // namespace cxxrun::rendezvous
