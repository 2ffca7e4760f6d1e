#include "rendezvous/membership/leavers.hpp"

#include <utility>
#include <vector>

#include "src/base/core/text.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kMostLeavers = 3;
constexpr std::size_t kLongestList = 60;

std::string who(LeaversState const& state, std::uint32_t count) {
  std::vector<std::uint32_t> ranks;
  std::vector<std::string> names;
  for (auto const& [first, part] : state.left) {
    for (std::uint32_t i = 0; i < part.count; ++i) {
      ranks.push_back(first + i);
      if (count <= kMostLeavers) {
        names.push_back(rank_name(first + i, part.host));
      }
    }
  }
  if (!names.empty()) {
    return join(names, ", ");
  }
  auto const list = "ranks " + number_list(std::move(ranks));
  return list.size() <= kLongestList ? list : counted(count, "rank");
}

}  // namespace

void note_leavers(LeaversState& state, std::uint32_t first, std::uint32_t count, std::string const& host, TimePoint now,
                  Millis patience) {
  auto const from = state.left.lower_bound(first);
  auto to = from;
  while (to != state.left.end() && to->first - first < count) {
    ++to;
  }
  state.left.erase(from, to);
  state.left.emplace(first, LeaversState::Ranks{count, host});
  state.due = earliest({state.due, now + patience});
}

std::string tell_leavers(LeaversState& state, std::uint32_t world) {
  std::uint32_t count = 0;
  for (auto const& [first, part] : state.left) {
    count += part.count;
  }
  state.due.reset();
  if (count == 0 || count >= world || count < 2 * state.told) {
    return "";
  }
  state.told = count;
  auto const others = world - count;
  return who(state, count) + (count == 1 ? " has" : " have") + " ended with exit code 0, and " +
         counted(others, "other") + (others == 1 ? " goes on" : " go on");
}

}  // namespace cxxrun::rendezvous
