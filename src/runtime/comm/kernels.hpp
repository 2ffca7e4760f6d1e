// Kernels: the loops of reduce.hpp, in one version for every CPU and one for CPUs with AVX2 and F16C. Pure.
//
// All tables give the same bits, except that a sum of several NaNs may become any of them.
#pragma once

#include <cstddef>

namespace cxxrun::comm {

/// The work of a kernel. `scale` as in reduce().
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
/// Null if the compiler's target lacks these instructions.
[[nodiscard]] Kernels const* avx2_kernels();
/// The best table that this CPU can execute.
[[nodiscard]] Kernels const& kernels();

}  // namespace cxxrun::comm
