#include "src/gpu/desync_report.hpp"

#include <algorithm>

namespace cxxrun::gpu {
std::string verdict(std::span<CallReport const> ranks, std::vector<std::string> const& names,
                    std::string const& patience) {
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i].number == ranks[0].number && ranks[0].number != 0) {
      if (auto differs = comm::disagreement(0, call_of(ranks[0].call), static_cast<int>(i), call_of(ranks[i].call))) {
        return *std::move(differs);
      }
    }
  }
  auto const fewest =
      std::min_element(ranks.begin(), ranks.end(), [](auto const& a, auto const& b) { return a.made < b.made; });
  auto const most =
      std::max_element(ranks.begin(), ranks.end(), [](auto const& a, auto const& b) { return a.made < b.made; });
  auto const name = [&](auto const& at) { return names[static_cast<std::size_t>(at - ranks.begin())]; };
  if (fewest->made != most->made) {
    return name(most) + " has made " + std::to_string(most->made) + " calls on device memory and " + name(fewest) +
           " only " + std::to_string(fewest->made) +
           ": every rank makes the same calls, with buffers in the same kind of memory";
  }
  auto const stuck = std::find_if(ranks.begin(), ranks.end(), [](auto const& told) { return told.number != 0; });
  auto const at = stuck == ranks.end() ? ranks.begin() : stuck;
  return name(at) + ": " + (at->number == 0 ? "a call" : comm::describe(call_of(at->call))) + " was not done within " +
         patience + ", though every rank made it; NCCL_DEBUG=INFO says more, nvidia-smi shows the state of the devices";
}

}  // namespace cxxrun::gpu
