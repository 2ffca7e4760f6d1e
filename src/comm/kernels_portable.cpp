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

}  // namespace cxxrun::comm
