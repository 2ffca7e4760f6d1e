#include "src/comm/reduce.hpp"

#include "src/comm/kernel_loops.hpp"

namespace cxxrun::comm {
namespace {

struct Portable {
  static constexpr std::size_t kBytes = 16;
};
constexpr Kernels kPortable = loops::table<Portable, loops::F16, loops::Bf16<Lanes>>();

bool has_avx2() {
#if defined(__x86_64__) && !defined(__clang__)  // clang 14 does not know the name of f16c
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
#else
  return false;
#endif
}

}  // namespace

Kernels const& portable_kernels() {
  return kPortable;
}

Kernels const& kernels() {
  static Kernels const& best = has_avx2() && avx2_kernels() != nullptr ? *avx2_kernels() : kPortable;
  return best;
}

void reduce(DType type, ReduceOp op, std::span<void const* const> inputs, std::span<void* const> outputs,
            std::size_t count, float scale) {
  auto const kernel = kernels().reduce[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)];
  kernel({inputs.data(), inputs.size(), outputs.data(), outputs.size(), count, scale});
}

void encode(Wire wire, float const* from, std::byte* to, std::size_t count) {
  kernels().encode[static_cast<std::size_t>(wire)](from, to, count);
}

void decode(Wire wire, std::byte const* from, float* to, std::size_t count) {
  kernels().decode[static_cast<std::size_t>(wire)](from, to, count);
}

void accumulate_encoded(Wire wire, float* to, std::byte const* from, std::size_t count) {
  kernels().accumulate_encoded[static_cast<std::size_t>(wire)](from, to, count);
}

}  // namespace cxxrun::comm
