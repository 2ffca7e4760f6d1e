// Formats of floating point elements: the stored type and the type to calculate in, for CPUs and GPUs. Pure.
//
// A format defines Stored; Value, the type in which a collective scales (scaled() below); and wide(), the conversion to
// double, in which squares are added up.
#pragma once

#include "src/runtime/comm/half.hpp"

namespace cxxrun::comm {

template <class T>
struct Native {
  using Stored = T;
  using Value = T;
  CXXRUN_ALSO_ON_DEVICE static Value value_of(Stored stored) { return stored; }
  CXXRUN_ALSO_ON_DEVICE static Stored stored_of(Value value) { return value; }
  CXXRUN_ALSO_ON_DEVICE static double wide(Stored stored) { return static_cast<double>(stored); }
};
using F32 = Native<float>;
using F64 = Native<double>;

struct F16 {
  using Stored = std::uint16_t;
  using Value = float;
  CXXRUN_ALSO_ON_DEVICE static Value value_of(Stored bits) { return float_of_f16<Lanes<1>>(bits); }
  CXXRUN_ALSO_ON_DEVICE static Stored stored_of(Value value) { return f16_of_float<Lanes<1>>(value); }
  CXXRUN_ALSO_ON_DEVICE static double wide(Stored bits) { return static_cast<double>(value_of(bits)); }
};
struct BF16 {
  using Stored = std::uint16_t;
  using Value = float;
  CXXRUN_ALSO_ON_DEVICE static Value value_of(Stored bits) { return float_of_bf16<Lanes<1>>(bits); }
  CXXRUN_ALSO_ON_DEVICE static Stored stored_of(Value value) { return bf16_of_float<Lanes<1>>(value); }
  CXXRUN_ALSO_ON_DEVICE static double wide(Stored bits) { return static_cast<double>(value_of(bits)); }
};

/// Applies the scale of a collective to one element of the sum: calculated in Value, rounded once.
template <class Format>
CXXRUN_ALSO_ON_DEVICE inline typename Format::Stored scaled(typename Format::Stored stored, float scale) {
  return Format::stored_of(Format::value_of(stored) * static_cast<typename Format::Value>(scale));
}
/// Multiplies a gradient, for GradientSynchronizer: in f64, but 16-bit types in f32, which has enough bits for them.
/// Some GPUs are 64 times slower in f64.
template <class Format>
CXXRUN_ALSO_ON_DEVICE inline typename Format::Stored multiplied(typename Format::Stored stored, double factor) {
  if constexpr (sizeof(stored) == 2) {
    return scaled<Format>(stored, static_cast<float>(factor));
  } else {
    return static_cast<typename Format::Stored>(static_cast<double>(stored) * factor);
  }
}

}  // namespace cxxrun::comm
