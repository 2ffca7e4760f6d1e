// Buckets: where each gradient lives in the arena, and in which order buckets are all-reduced. Pure; the rules are in
// docs/use/gradient_synchronizer.md. The padding behind a gradient is summed with the rest, which leaves it zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"

namespace cxxrun::gradient {

struct BucketLimits {
  std::size_t first_bytes = 0;  ///< of the first bucket of each type
  std::size_t bytes = 0;        ///< of the others
  bool operator==(BucketLimits const&) const = default;
};

/// What the control values need.
struct ControlNeeds {
  std::size_t slots = 0;
  bool f32 = false;  ///< elements of an f32 bucket arrive as they are, and are precise enough
};

struct Bucket {
  DType type = DType::f32;
  std::size_t offset = 0;         ///< from the start of the arena, in bytes
  std::size_t bytes = 0;          ///< gradients and padding
  std::size_t control_slots = 0;  ///< elements behind them; only the last bucket has any
  std::uint32_t gradients = 0;    ///< how many
  bool operator==(Bucket const&) const = default;
};

/// Where one gradient is.
struct Place {
  std::uint32_t bucket = 0;
  std::size_t offset = 0;  ///< from the start of the arena, in bytes
  std::size_t bytes = 0;
  bool operator==(Place const&) const = default;
};

struct Layout {
  std::vector<Place> places;    ///< by parameter
  std::vector<Bucket> buckets;  ///< in launch order; never empty
  bool operator==(Layout const&) const = default;
};

/// With the padding behind a gradient of so many bytes.
[[nodiscard]] inline std::size_t aligned(std::size_t bytes) {
  return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

/// Elements that one all-reduce of the bucket covers, control values included.
[[nodiscard]] inline std::size_t elements_of(Bucket const& bucket) {
  return bucket.bytes / size_of(bucket.type) + bucket.control_slots;
}
/// Where the control values begin, from the start of the arena in bytes.
[[nodiscard]] inline std::size_t control_offset(Layout const& layout) {
  return layout.buckets.back().offset + layout.buckets.back().bytes;
}

/// Bytes that every layout of these parameters fits into.
[[nodiscard]] std::size_t arena_bytes(std::span<Parameter const> parameters, ControlNeeds const& control);

/// The last parameter first.
[[nodiscard]] std::vector<std::uint32_t> reverse_order(std::size_t parameters);
/// `seen`, then those of `before` that are not in it, in that order. Entries of `seen` are distinct.
[[nodiscard]] std::vector<std::uint32_t> completed_order(std::span<std::uint32_t const> seen,
                                                         std::span<std::uint32_t const> before);

/// `order` names every parameter once: the one expected to be ready first comes first.
[[nodiscard]] Layout make_layout(std::span<Parameter const> parameters, std::span<std::uint32_t const> order,
                                 BucketLimits const& limits, ControlNeeds const& control);

}  // namespace cxxrun::gradient
