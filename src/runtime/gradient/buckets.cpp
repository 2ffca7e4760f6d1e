#include "src/runtime/gradient/buckets.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

namespace cxxrun::gradient {

namespace {

constexpr std::size_t kTypes = 8;  // more than DType has

/// A bucket while it is being filled: its parameters, and when the last of them is expected.
struct Draft {
  DType type = DType::f32;
  std::size_t bytes = 0;
  std::size_t last = 0;  // its position in the order
  std::vector<std::uint32_t> parameters;
};

std::vector<Draft> fill(std::span<Parameter const> parameters, std::span<std::uint32_t const> order,
                        BucketLimits const& limits) {
  struct Open {
    std::optional<std::size_t> draft;
    std::size_t limit = 0;
  };
  std::vector<Draft> drafts;
  std::array<Open, kTypes> by_type{};
  for (std::size_t position = 0; position < order.size(); ++position) {
    auto const& parameter = parameters[order[position]];
    auto const bytes = aligned(parameter.count * size_of(parameter.type));
    auto& open = by_type[static_cast<std::size_t>(parameter.type)];
    auto const filled = open.draft ? drafts[*open.draft].bytes : 0;
    if (!open.draft || (filled > 0 && filled + bytes > open.limit)) {
      open.limit = open.draft ? limits.bytes : limits.first_bytes;
      open.draft = drafts.size();
      drafts.push_back({parameter.type, 0, 0, {}});
    }
    auto& draft = drafts[*open.draft];
    draft.bytes += bytes;
    draft.last = position;
    draft.parameters.push_back(order[position]);
  }
  std::sort(drafts.begin(), drafts.end(), [](Draft const& a, Draft const& b) { return a.last < b.last; });
  return drafts;
}

}  // namespace

std::size_t arena_bytes(std::span<Parameter const> parameters, ControlNeeds const& control) {
  std::size_t bytes = aligned(control.slots * sizeof(double));
  for (auto const& parameter : parameters) {
    bytes += aligned(parameter.count * size_of(parameter.type));
  }
  return bytes;
}

std::vector<std::uint32_t> reverse_order(std::size_t parameters) {
  std::vector<std::uint32_t> order(parameters);
  for (std::size_t i = 0; i < parameters; ++i) {
    order[i] = static_cast<std::uint32_t>(parameters - 1 - i);
  }
  return order;
}

std::vector<std::uint32_t> completed_order(std::span<std::uint32_t const> seen, std::span<std::uint32_t const> before) {
  std::vector<std::uint32_t> order(seen.begin(), seen.end());
  std::vector<bool> has(before.size());
  for (auto const parameter : seen) {
    has[parameter] = true;
  }
  std::copy_if(before.begin(), before.end(), std::back_inserter(order),
               [&](auto parameter) { return !has[parameter]; });
  return order;
}

Layout make_layout(std::span<Parameter const> parameters, std::span<std::uint32_t const> order,
                   BucketLimits const& limits, ControlNeeds const& control) {
  Layout layout;
  layout.places.resize(parameters.size());
  std::size_t offset = 0;
  for (auto const& draft : fill(parameters, order, limits)) {
    Bucket bucket{draft.type, offset, 0, 0, static_cast<std::uint32_t>(draft.parameters.size())};
    for (auto const parameter : draft.parameters) {
      auto const bytes = parameters[parameter].count * size_of(parameters[parameter].type);
      layout.places[parameter] = {static_cast<std::uint32_t>(layout.buckets.size()), offset, bytes};
      offset += aligned(bytes);
    }
    bucket.bytes = offset - bucket.offset;
    layout.buckets.push_back(bucket);
  }
  auto const last = layout.buckets.empty() ? DType::u8 : layout.buckets.back().type;
  if (last != DType::f64 && !(last == DType::f32 && control.f32)) {
    layout.buckets.push_back({DType::f64, offset, 0, 0, 0});
  }
  layout.buckets.back().control_slots = control.slots;
  return layout;
}

// ---- moves

namespace {

class Planner {
 public:
  Planner(std::size_t at, std::size_t room) : bring_(at), stage_(at + room / 2), half_(room / 2) {}

  /// Swaps [from, from + bytes) with [to, from), which moves up. `bytes` fit into half of the room.
  void rotate(std::size_t to, std::size_t from, std::size_t bytes) {
    moves_.push_back({from, bring_, bytes});
    bool const directly = bytes == half_;  // otherwise the pieces would be as small as `bytes`, and many
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
