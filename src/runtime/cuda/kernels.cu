// The kernels: each element is handled once, with the results of src/runtime/comm/element_formats.hpp. 16-bit elements
// are converted in pairs by the GPU's own instructions, which give the same bits, and 0x7fff for every NaN.
//
// Compiled without fused multiply-add, so that sums of squares have the bits of the order in kernels.hpp.
#include <cstddef>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "src/runtime/comm/element_formats.hpp"
#include "src/runtime/cuda/device_kernels.hpp"

namespace cxxrun::cuda {
/// Named: the name of an unnamed namespace would depend on the directory in which nvcc runs.
inline namespace kernels {

using comm::BF16;
using comm::F16;
using comm::F32;
using comm::F64;

constexpr unsigned kThreads = 256;
constexpr std::uint64_t kMostBlocks = 1U << 16U;

/// Elements read or written at once, in pieces of at most 16 bytes.
template <class T, unsigned N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Pack {
  T of[N];
};

template <unsigned N, class In, class Out, class Map>
__global__ void map_kernel(In const* in, Out* out, std::uint64_t count, Map map) {
  std::uint64_t const first = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  std::uint64_t const stride = std::uint64_t{gridDim.x} * blockDim.x;
  std::uint64_t const packs = count / N;
  for (std::uint64_t p = first; p < packs; p += stride) {
    auto const from = reinterpret_cast<Pack<In, N> const*>(in)[p];
    Pack<Out, N> to;
    if constexpr (N % 2 == 0) {
#pragma unroll
      for (unsigned k = 0; k < N; k += 2) {
        map(from.of + k, to.of + k);
      }
    } else {
      to.of[0] = map.one(from.of[0]);
    }
    reinterpret_cast<Pack<Out, N>*>(out)[p] = to;
  }
  for (std::uint64_t i = packs * N + first; i < count; i += stride) {
    out[i] = map.one(in[i]);
  }
}

template <class T>
bool aligned(T const* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

cudaLaunchConfig_t shape(std::uint64_t blocks, unsigned threads, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks < 1 ? 1 : blocks > kMostBlocks ? kMostBlocks : blocks));
  config.blockDim = dim3(threads);
  config.stream = stream;
  return config;
}

/// out = map(in), element by element; `in` and `out` may be equal.
template <class In, class Out, class Map>
cudaError_t launch_map(In const* in, Out* out, std::uint64_t count, Map map, cudaStream_t stream) {
  constexpr unsigned kPack = 16 / (sizeof(In) < sizeof(Out) ? sizeof(In) : sizeof(Out));
  if (count == 0) {
    return cudaSuccess;
  }
  if (aligned(in) && aligned(out)) {
    auto const config = shape((count / kPack + kThreads - 1) / kThreads, kThreads, stream);
    return cudaLaunchKernelEx(&config, map_kernel<kPack, In, Out, Map>, in, out, count, map);
  }
  auto const config = shape((count + kThreads - 1) / kThreads, kThreads, stream);
  return cudaLaunchKernelEx(&config, map_kernel<1, In, Out, Map>, in, out, count, map);
}

/// CUDA's pairs have constructors, so bit_cast does not accept them.
template <class To, class From>
__device__ To as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

/// Two 16-bit elements in one word, the first one in the lower half.
template <class Format>
struct Two;
template <>
struct Two<F16> {
  __device__ static float2 values(std::uint32_t word) { return __half22float2(as<__half2>(word)); }
  __device__ static std::uint32_t word(float2 values) { return as<std::uint32_t>(__float22half2_rn(values)); }
};
template <>
struct Two<BF16> {
  __device__ static float2 values(std::uint32_t word) {
    return make_float2(__uint_as_float(word << 16U), __uint_as_float(word & 0xffff0000U));
  }
  __device__ static std::uint32_t word(float2 values) { return as<std::uint32_t>(__float22bfloat162_rn(values)); }
};

__device__ std::uint32_t joined(std::uint16_t const* two) {
  return std::uint32_t{two[0]} | std::uint32_t{two[1]} << 16U;
}
__device__ void split(std::uint32_t word, std::uint16_t* two) {
  two[0] = static_cast<std::uint16_t>(word);
  two[1] = static_cast<std::uint16_t>(word >> 16U);
}

/// Conversion to double, in which squares are added up.
template <class Format>
__device__ double wide(typename Format::Stored stored) {
  if constexpr (sizeof(stored) == 2) {
    return static_cast<double>(Two<Format>::values(stored).x);
  } else {
    return Format::wide(stored);
  }
}

template <class Format>
struct Encode {
  float scale;
  __device__ void operator()(float const* from, std::uint16_t* to) const {
    split(Two<Format>::word(make_float2(from[0] * scale, from[1] * scale)), to);
  }
  __device__ std::uint16_t one(float value) const {
    return static_cast<std::uint16_t>(Two<Format>::word(make_float2(value * scale, 0)));
  }
};
template <class Format>
struct Decode {
  float scale;
  __device__ void operator()(std::uint16_t const* from, float* to) const {
    auto const values = Two<Format>::values(joined(from));
    to[0] = values.x * scale;
    to[1] = values.y * scale;
  }
  __device__ float one(std::uint16_t stored) const { return Two<Format>::values(stored).x * scale; }
};
/// For 16-bit formats: calculates in f32.
template <class Format, class Factor>
struct Product {
  float factor;
  __device__ void operator()(std::uint16_t const* from, std::uint16_t* to) const {
    auto const values = Two<Format>::values(joined(from));
    split(Two<Format>::word(make_float2(values.x * factor, values.y * factor)), to);
  }
  __device__ std::uint16_t one(std::uint16_t stored) const {
    return static_cast<std::uint16_t>(Two<Format>::word(make_float2(Two<Format>::values(stored).x * factor, 0)));
  }
};
template <class T, class Factor>
struct Product<comm::Native<T>, Factor> {
  Factor factor;
  __device__ void operator()(T const* from, T* to) const {
    to[0] = one(from[0]);
    to[1] = one(from[1]);
  }
  __device__ T one(T stored) const {
    if constexpr (sizeof(Factor) == sizeof(double)) {
      return comm::multiplied<comm::Native<T>>(stored, factor);
    } else {
      return comm::scaled<comm::Native<T>>(stored, factor);
    }
  }
};

__global__ void probe_kernel(std::uint32_t* word, std::uint32_t value) {
  *word = value;
}

/// sums[0] = the sum of all, by halving; N is a power of two, with one thread per element.
template <unsigned N>
__device__ void fold(double* sums) {
  for (unsigned half = N / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      sums[threadIdx.x] += sums[threadIdx.x + half];
    }
  }
}

/// kAligned: reads a pack at once. The order of additions is the same.
template <class Format, bool kAligned>
__global__ void squares_kernel(typename Format::Stored const* data, std::uint64_t count, double* partial) {
  using Stored = typename Format::Stored;
  constexpr unsigned kPack = 16 / sizeof(Stored);
  __shared__ double sums[kSquareThreads];
  std::uint64_t const first = std::uint64_t{blockIdx.x} * kSquareThreads + threadIdx.x;
  std::uint64_t const packs = count / kPack;
  double sum = 0;
  auto const add = [&sum](Stored stored) {
    double const value = wide<Format>(stored);
    sum += value * value;
  };
  for (std::uint64_t p = first; p < packs; p += std::uint64_t{kSquareBlocks} * kSquareThreads) {
    Pack<Stored, kPack> pack;
    if constexpr (kAligned) {
      pack = reinterpret_cast<Pack<Stored, kPack> const*>(data)[p];
    }
#pragma unroll
    for (unsigned k = 0; k < kPack; ++k) {
      add(kAligned ? pack.of[k] : data[p * kPack + k]);
    }
  }
  if (first < count % kPack) {
    add(data[packs * kPack + first]);
  }
  sums[threadIdx.x] = sum;
  fold<kSquareThreads>(sums);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sums[0];
  }
}

__global__ void add_partial_kernel(double const* partial, double* sum) {
  __shared__ double sums[kSquareBlocks];
  sums[threadIdx.x] = partial[threadIdx.x];
  fold<kSquareBlocks>(sums);
  if (threadIdx.x == 0) {
    *sum += sums[0];
  }
}

template <class Format>
cudaError_t launch_squares(void const* data, std::uint64_t count, double* partial, cudaStream_t stream) {
  auto const config = shape(kSquareBlocks, kSquareThreads, stream);
  auto const* const elements = static_cast<typename Format::Stored const*>(data);
  return aligned(elements) ? cudaLaunchKernelEx(&config, squares_kernel<Format, true>, elements, count, partial)
                           : cudaLaunchKernelEx(&config, squares_kernel<Format, false>, elements, count, partial);
}

template <class Format, class Factor>
cudaError_t launch_product(void const* from, void* to, std::uint64_t count, Factor factor, cudaStream_t stream) {
  using Stored = typename Format::Stored;
  using Map = Product<Format, Factor>;
  return launch_map(static_cast<Stored const*>(from), static_cast<Stored*>(to), count,
                    Map{static_cast<decltype(Map::factor)>(factor)}, stream);
}
/// For 16-bit formats one kernel serves both functions.
template <class Factor>
cudaError_t launch_product(std::uint8_t type, void const* from, void* to, std::uint64_t count, Factor factor,
                           cudaStream_t stream) {
  switch (type) {
    case 0: return launch_product<F32>(from, to, count, factor, stream);
    case 1: return launch_product<F64>(from, to, count, factor, stream);
    case 2: return launch_product<F16>(from, to, count, static_cast<float>(factor), stream);
    case 3: return launch_product<BF16>(from, to, count, static_cast<float>(factor), stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace kernels
}  // namespace cxxrun::cuda

using namespace cxxrun::cuda;

cudaError_t cxxrun_cuda_launch_probe(std::uint32_t* word, std::uint32_t value, cudaStream_t stream) {
  auto const config = shape(1, 1, stream);
  return cudaLaunchKernelEx(&config, probe_kernel, word, value);
}

cudaError_t cxxrun_cuda_launch_encode(std::uint8_t wire, float const* from, void* to, std::uint64_t count, float scale,
                                      cudaStream_t stream) {
  auto* const bits = static_cast<std::uint16_t*>(to);
  switch (wire) {
    case 1: return launch_map(from, bits, count, Encode<BF16>{scale}, stream);
    case 2: return launch_map(from, bits, count, Encode<F16>{scale}, stream);
    default: return cudaErrorInvalidValue;
  }
}

cudaError_t cxxrun_cuda_launch_decode(std::uint8_t wire, void const* from, float* to, std::uint64_t count, float scale,
                                      cudaStream_t stream) {
  auto const* const bits = static_cast<std::uint16_t const*>(from);
  switch (wire) {
    case 1: return launch_map(bits, to, count, Decode<BF16>{scale}, stream);
    case 2: return launch_map(bits, to, count, Decode<F16>{scale}, stream);
    default: return cudaErrorInvalidValue;
  }
}

cudaError_t cxxrun_cuda_launch_scale(std::uint8_t type, void const* from, void* to, std::uint64_t count, float scale,
                                     cudaStream_t stream) {
  return launch_product(type, from, to, count, scale, stream);
}

cudaError_t cxxrun_cuda_launch_multiply(std::uint8_t type, void* data, std::uint64_t count, double factor,
                                        cudaStream_t stream) {
  return launch_product(type, data, data, count, factor, stream);
}

cudaError_t cxxrun_cuda_launch_add_squares(std::uint8_t type, void const* data, std::uint64_t count, double* partial,
                                           double* sum, cudaStream_t stream) {
  cudaError_t result = cudaErrorInvalidValue;
  switch (type) {
    case 0: result = launch_squares<F32>(data, count, partial, stream); break;
    case 1: result = launch_squares<F64>(data, count, partial, stream); break;
    case 2: result = launch_squares<F16>(data, count, partial, stream); break;
    case 3: result = launch_squares<BF16>(data, count, partial, stream); break;
    default: break;
  }
  if (result != cudaSuccess) {
    return result;
  }
  auto const config = shape(1, kSquareBlocks, stream);
  return cudaLaunchKernelEx(&config, add_partial_kernel, static_cast<double const*>(partial), sum);
}
