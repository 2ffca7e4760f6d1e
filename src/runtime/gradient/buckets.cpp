#include "src/runtime/gradient/buckets.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace cxxrun::gradient {
namespace {

constexpr std::size_t kTypes = 8;  // more than DType has

/// A bucket while it is being filled: the parameters in it and when the last of them is expected.
struct Draft {
  DType type = DType::f32;
  std::size_t bytes = 0;
  std::size_t last = 0;  // position in the order
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

}  // namespace cxxrun::gradient
