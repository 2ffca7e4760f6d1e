// The kernels: every element once, in the arithmetic of src/comm/element_formats.hpp.
//
// Compiled without fused multiply-add, so that sums of squares are those of the order in kernels.hpp to the last bit.
#include <cstddef>

#include "src/comm/element_formats.hpp"
#include "src/cuda/kernels.hpp"

namespace cxxrun::cuda {
namespace {

using comm::BF16;
using comm::F16;
using comm::F32;
using comm::F64;

constexpr unsigned kThreads = 256;
constexpr std::uint64_t kMostBlocks = 1U << 16U;

/// As many elements as are read or written at once.
template <class T, unsigned N>
struct alignas(sizeof(T) * N) Pack {
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
#pragma unroll
    for (unsigned k = 0; k < N; ++k) {
      to.of[k] = map(from.of[k]);
    }
    reinterpret_cast<Pack<Out, N>*>(out)[p] = to;
  }
  for (std::uint64_t i = packs * N + first; i < count; i += stride) {
    out[i] = map(in[i]);
  }
}

template <class T>
bool aligned(T const* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

cudaLaunchConfig_t shape(std::uint64_t blocks, unsigned threads, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks < 1 ? 1 : blocks > kMostBlocks ? kMostBlocks : blocks));
  config.blockDim = dim3(threads);
  config.stream = stream;
  return config;
}

/// out = map(in), element by element; `in` and `out` may be the same.
template <class In, class Out, class Map>
cudaError_t launch_map(In const* in, Out* out, std::uint64_t count, Map map, cudaStream_t stream) {
  constexpr unsigned kPack = 16 / (sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out));
  if (count == 0) {
    return cudaSuccess;
  }
  if (aligned(in, sizeof(In) * kPack) && aligned(out, sizeof(Out) * kPack)) {
    auto const config = shape((count / kPack + kThreads - 1) / kThreads, kThreads, stream);
    return cudaLaunchKernelEx(&config, map_kernel<kPack, In, Out, Map>, in, out, count, map);
  }
  auto const config = shape((count + kThreads - 1) / kThreads, kThreads, stream);
  return cudaLaunchKernelEx(&config, map_kernel<1, In, Out, Map>, in, out, count, map);
}

template <class Format>
struct Encode {
  float scale;
  __device__ typename Format::Stored operator()(float value) const { return Format::stored_of(value * scale); }
};
template <class Format>
struct Decode {
  float scale;
  __device__ float operator()(typename Format::Stored stored) const { return Format::value_of(stored) * scale; }
};
template <class Format>
struct Scale {
  float factor;
  __device__ typename Format::Stored operator()(typename Format::Stored stored) const {
    return comm::scaled<Format>(stored, factor);
  }
};
template <class Format>
struct Multiply {
  double factor;
  __device__ typename Format::Stored operator()(typename Format::Stored stored) const {
    return comm::multiplied<Format>(stored, factor);
  }
};

__global__ void probe_kernel(std::uint32_t* word, std::uint32_t value) {
  *word = value;
}

/// sums[0] = the sum of all, in halves; N a power of two, one thread for each.
template <unsigned N>
__device__ void fold(double* sums) {
  for (unsigned half = N / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      sums[threadIdx.x] += sums[threadIdx.x + half];
    }
  }
}

template <class Format>
__global__ void squares_kernel(typename Format::Stored const* data, std::uint64_t count, double* partial) {
  __shared__ double sums[kSquareThreads];
  double sum = 0;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * kSquareThreads + threadIdx.x; i < count;
       i += std::uint64_t{kSquareBlocks} * kSquareThreads) {
    double const value = Format::wide(data[i]);
    sum += value * value;
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
  return cudaLaunchKernelEx(&config, squares_kernel<Format>, static_cast<typename Format::Stored const*>(data), count,
                            partial);
}

template <template <class> class Map, class Format, class Factor>
cudaError_t launch_product(void const* from, void* to, std::uint64_t count, Factor factor, cudaStream_t stream) {
  using Stored = typename Format::Stored;
  return launch_map(static_cast<Stored const*>(from), static_cast<Stored*>(to), count, Map<Format>{factor}, stream);
}
template <template <class> class Map, class Factor>
cudaError_t launch_product(std::uint8_t type, void const* from, void* to, std::uint64_t count, Factor factor,
                           cudaStream_t stream) {
  switch (type) {
    case 0: return launch_product<Map, F32>(from, to, count, factor, stream);
    case 1: return launch_product<Map, F64>(from, to, count, factor, stream);
    case 2: return launch_product<Map, F16>(from, to, count, factor, stream);
    case 3: return launch_product<Map, BF16>(from, to, count, factor, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace
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
  return launch_product<Scale>(type, from, to, count, scale, stream);
}

cudaError_t cxxrun_cuda_launch_multiply(std::uint8_t type, void* data, std::uint64_t count, double factor,
                                        cudaStream_t stream) {
  return launch_product<Multiply>(type, data, data, count, factor, stream);
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
