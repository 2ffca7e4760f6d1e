// GroupCount: how many collectives a worker has begun in one of its groups, as PyTorch numbers them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cxxrun::worker {

/// Of so many groups a worker shows it.
inline constexpr std::size_t kGroups = 16;

struct GroupCount {
  std::uint64_t id = 0;     ///< the same for all its members, and of no other group of theirs
  std::uint64_t begun = 0;  ///< compared with the other members' only: PyTorch 1 does not begin with 0
  std::uint64_t size = 0;   ///< members
  bool operator==(GroupCount const&) const = default;
};

/// Changes whenever the worker begins a collective, in whichever group.
[[nodiscard]] inline std::uint64_t begun_in_all(std::uint64_t entered, std::vector<GroupCount> const& groups) {
  for (auto const& each : groups) {
    entered += each.begun;
  }
  return entered;
}

}  // namespace cxxrun::worker
