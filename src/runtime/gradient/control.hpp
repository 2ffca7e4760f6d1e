// Control: the few values that ranks sum up with the last bucket of a step, and so have been multiplied with the same
// scale as its gradients (docs/use/gradient_synchronizer.md). Pure.
#pragma once

#include <cmath>
#include <cstddef>

#include "cxxrun/dtype.hpp"

namespace cxxrun::gradient {

/// One rank's values, or the totals over all ranks. Behind them, with find_unused, one slot per parameter says how many
/// ranks marked it.
struct Control {
  double errors = 0;    ///< ranks on which the step went wrong
  double weighted = 0;  ///< ranks that gave a weight
  double weight = 0;    ///< the weights
  static constexpr std::size_t kSlots = 3;
};

/// The slots in the arena, of type f32 or f64.
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

  /// `scale`: what the sums were multiplied with. Counts come out whole whatever it was.
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
