#include "src/runtime/gradient/moves.hpp"

#include <algorithm>
#include <numeric>

namespace cxxrun::gradient {
namespace {

class Planner {
 public:
  Planner(std::size_t at, std::size_t room) : bring_(at), stage_(at + room / 2), half_(room / 2) {}

  /// [from, from + bytes) comes before what lies in [to, from), which moves up. `bytes` fit into half of the room.
  void rotate(std::size_t to, std::size_t from, std::size_t bytes) {
    moves_.push_back({from, bring_, bytes});
    bool const directly = bytes == half_;  // else pieces would be as small as these bytes, and many
    for (std::size_t end = from; end > to;) {
      auto const piece = std::min(half_, end - to);
      end -= piece;
      if (directly) {
        moves_.push_back({end, end + bytes, piece});
      } else {
        moves_.push_back({end, stage_, piece});
        moves_.push_back({stage_, end + bytes, piece});
      }
    }
    moves_.push_back({bring_, to, bytes});
  }

  [[nodiscard]] std::size_t most() const { return half_; }
  [[nodiscard]] std::vector<Move> take() { return std::move(moves_); }

 private:
  std::size_t bring_;
  std::size_t stage_;
  std::size_t half_;
  std::vector<Move> moves_;
};

}  // namespace

std::vector<Move> plan_moves(Layout const& from, Layout const& to, std::size_t at, std::size_t room) {
  std::vector<std::size_t> order(to.places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return to.places[a].offset < to.places[b].offset; });
  std::vector<std::size_t> now;
  for (auto const& place : from.places) {
    now.push_back(place.offset);
  }
  Planner plan(at, room);
  for (auto const i : order) {
    auto const size = aligned(to.places[i].bytes);
    if (size == 0 || now[i] == to.places[i].offset) {
      continue;
    }
    auto const start = now[i];
    for (std::size_t done = 0; done < size; done += std::min(plan.most(), size - done)) {
      plan.rotate(to.places[i].offset + done, start + done, std::min(plan.most(), size - done));
    }
    for (auto& offset : now) {
      offset += offset >= to.places[i].offset && offset < start ? size : 0;
    }
    now[i] = to.places[i].offset;
  }
  return plan.take();
}

}  // namespace cxxrun::gradient
