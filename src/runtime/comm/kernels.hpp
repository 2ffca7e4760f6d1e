// Kernels: the loops of reduce.hpp, once for every CPU and once for CPUs with AVX2 and F16C. Pure.
//
// All tables give the same bits (which NaN a sum of several becomes is nobody's promise).
#pragma once

#include <cstddef>

namespace cxxrun::comm {

/// What a kernel works on. `scale` as in reduce().
struct Reduction {
  void const* const* inputs;
  std::size_t input_count;
  void* const* outputs;
  std::size_t output_count;
  std::size_t count;
  float scale;
};

struct Kernels {
  using Reduce = void (*)(Reduction const&);
  using Encode = void (*)(float const* from, std::byte* to, std::size_t count);
  using Decode = void (*)(std::byte const* from, float* to, std::size_t count);
  Reduce reduce[7][3];           ///< by DType, by ReduceOp
  Encode encode[3];              ///< by Wire, as the next two
  Decode decode[3];              ///< to = from
  Decode accumulate_encoded[3];  ///< to += from
};

[[nodiscard]] Kernels const& portable_kernels();
/// Nothing where the compiler's target has no such instructions.
[[nodiscard]] Kernels const* avx2_kernels();
/// The best ones this CPU can execute.
[[nodiscard]] Kernels const& kernels();

}  // namespace cxxrun::comm
