// Buckets: where each gradient lives in the arena, and the order in which buckets are all-reduced. Pure; the rules are
// in docs/use/gradient_synchronizer.md. The padding after a gradient is zero, is summed too, and stays zero.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cxxrun/dtype.hpp"
#include "cxxrun/gradient_synchronizer.hpp"

namespace cxxrun::gradient {

struct BucketLimits {
  std::size_t first_bytes = 0;  ///< of the first bucket of each type
  std::size_t bytes = 0;        ///< of the others
  bool operator==(BucketLimits const&) const = default;
};

/// Space for the control values.
struct ControlNeeds {
  std::size_t slots = 0;
  bool f32 = false;  ///< f32 buckets may hold them: elements arrive unchanged, and f32 is precise enough
};

struct Bucket {
  DType type = DType::f32;
  std::size_t offset = 0;         ///< from the start of the arena, in bytes
  std::size_t bytes = 0;          ///< gradients and padding
  std::size_t control_slots = 0;  ///< elements after the gradients; only in the last bucket
  std::uint32_t gradients = 0;    ///< number of gradients
  bool operator==(Bucket const&) const = default;
};

/// The location of one gradient.
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

/// Size of a gradient of `bytes` bytes including its padding.
[[nodiscard]] inline std::size_t aligned(std::size_t bytes) {
  return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

/// Elements in one all-reduce of the bucket, including control values.
[[nodiscard]] inline std::size_t elements_of(Bucket const& bucket) {
  return bucket.bytes / size_of(bucket.type) + bucket.control_slots;
}
/// Where the control values begin, in bytes from the start of the arena.
[[nodiscard]] inline std::size_t control_offset(Layout const& layout) {
  return layout.buckets.back().offset + layout.buckets.back().bytes;
}

/// Bytes that are enough for every layout of these parameters.
[[nodiscard]] std::size_t arena_bytes(std::span<Parameter const> parameters, ControlNeeds const& control);

/// All parameters, the last one first.
[[nodiscard]] std::vector<std::uint32_t> reverse_order(std::size_t parameters);
/// `seen`, followed by the parameters of `before` that are not in it, in their order. Entries of `seen` are distinct.
[[nodiscard]] std::vector<std::uint32_t> completed_order(std::span<std::uint32_t const> seen,
                                                         std::span<std::uint32_t const> before);

/// `order` names every parameter once, in the order in which they are expected to be ready.
[[nodiscard]] Layout make_layout(std::span<Parameter const> parameters, std::span<std::uint32_t const> order,
                                 BucketLimits const& limits, ControlNeeds const& control);

// ---- Moves: how gradients get to their places in another layout within one arena, through a small free room

/// A copy within the arena, in bytes. Source and target do not overlap.
struct Move {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t bytes = 0;
};

/// Both layouts have the same parameters. `room`: size of the free space at offset `at`; even, and both multiples of
/// Arena::kAlignment. Executed in this order, the moves bring every gradient and its padding to its place in `to`.
[[nodiscard]] std::vector<Move> plan_moves(Layout const& from, Layout const& to, std::size_t at, std::size_t room);

// ---- Control values: a few numbers that the ranks sum with the last bucket of a step; they are multiplied by the same
// scale as its gradients

/// One rank's values, or the totals over all ranks. With find_unused they are followed by one slot per parameter: how
/// many ranks marked it.
struct Control {
  double errors = 0;    ///< number of ranks with an error in this step
  double weighted = 0;  ///< number of ranks that gave a weight
  double weight = 0;    ///< sum of the weights
  static constexpr std::size_t kSlots = 3;
};

/// The control values in the arena, of type f32 or f64.
class ControlSlots {
 public:
  ControlSlots() = default;
  ControlSlots(DType type, void* data) : type_(type), data_(data) {}

  void write(Control const& mine) const {
    set(0, mine.errors);
    set(1, mine.weighted);
    set(2, mine.weight);
  }
  void write_used(std::size_t parameter, bool used) const { set(Control::kSlots + parameter, used ? 1 : 0); }

  /// `scale`: what the sums were multiplied by. Rounding makes the counts whole again.
  [[nodiscard]] Control total(double scale) const {
    return {std::round(get(0) / scale), std::round(get(1) / scale), get(2) / scale};
  }
  [[nodiscard]] bool used(std::size_t parameter) const { return get(Control::kSlots + parameter) > 0; }

 private:
  void set(std::size_t slot, double value) const {
    if (type_ == DType::f64) {
      static_cast<double*>(data_)[slot] = value;
    } else {
      static_cast<float*>(data_)[slot] = static_cast<float>(value);
    }
  }
  [[nodiscard]] double get(std::size_t slot) const {
    return type_ == DType::f64 ? static_cast<double*>(data_)[slot]
                               : static_cast<double>(static_cast<float*>(data_)[slot]);
  }

  DType type_ = DType::f64;
  void* data_ = nullptr;
};

}  // namespace cxxrun::gradient
