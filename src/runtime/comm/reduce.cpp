#include "src/runtime/comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/runtime/comm/kernel_loops.hpp"

namespace cxxrun::comm {
namespace {

struct Portable {
  static constexpr std::size_t kBytes = 16;
};
constexpr Kernels kPortable = loops::table<Portable, loops::F16, loops::Bf16<Lanes>>();

bool has_avx2() {
#if defined(__x86_64__) && !defined(__clang__)  // clang 14's __builtin_cpu_supports does not know f16c
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

namespace {

constexpr std::size_t kInCache = 4096;  // elements: their f32 stay in the L1 cache from input to input

constexpr Wire format_of(DType type) {
  return type == DType::f16 ? Wire::f16 : Wire::bf16;
}

}  // namespace

void sum_to_f32(DType type, std::span<void const* const> inputs, float* to, std::size_t count) {
  Wire const format = format_of(type);
  for (std::size_t at = 0; at < count; at += kInCache) {
    std::size_t const some = std::min(kInCache, count - at);
    auto const input = [&](std::size_t j) {
      return static_cast<std::byte const*>(inputs[j]) + at * sizeof(std::uint16_t);
    };
    decode(format, input(0), to + at, some);
    for (std::size_t j = 1; j < inputs.size(); ++j) {
      accumulate_encoded(format, to + at, input(j), some);
    }
  }
}

void sum_from_f32(DType type, std::span<void const* const> inputs, std::byte* to, std::size_t count, float scale) {
  std::array<float, kInCache> sum;  // NOLINT(cppcoreguidelines-pro-type-member-init): written before it is read
  for (std::size_t at = 0; at < count; at += kInCache) {
    std::size_t const some = std::min(kInCache, count - at);
    auto const input = [&](std::size_t j) { return static_cast<std::byte const*>(inputs[j]) + at * sizeof(float); };
    decode(Wire::same, input(0), sum.data(), some);
    for (std::size_t j = 1; j < inputs.size(); ++j) {
      accumulate_encoded(Wire::same, sum.data(), input(j), some);
    }
    if (scale != 1.0F) {
      std::array<void*, 1> const out{sum.data()};
      std::array<void const*, 1> const in{sum.data()};
      reduce(DType::f32, ReduceOp::sum, in, out, some, scale);
    }
    encode(format_of(type), sum.data(), to + at * sizeof(std::uint16_t), some);
  }
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
