#include "src/runtime/comm/grouping.hpp"

#include <algorithm>

namespace cxxrun::comm {

std::vector<int> members_of(std::span<Wish const> wishes, int rank) {
  auto const wish = [&](int of) { return wishes[static_cast<std::size_t>(of)]; };
  std::vector<int> members;
  for (int other = 0; other < static_cast<int>(wishes.size()); ++other) {
    if (wish(rank).color >= 0 && wish(other).color == wish(rank).color) {
      members.push_back(other);
    }
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return wish(a).key < wish(b).key; });
  return members;
}

}  // namespace cxxrun::comm
