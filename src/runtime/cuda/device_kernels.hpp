// Kernel launches and queries for the driver: functions that a test can replace.
//
// The plugin exports them, so that a library loaded before it can replace them, as it can replace the functions of
// cudart and NCCL: tests/support/cuda_double runs the plugin without a GPU. Numbers of types, wires and operations as
// in src/base/core/call.hpp. Each function queues its work on `stream` and returns the result of the launch. Buffers
// need the alignment of their elements; multiples of 16 bytes are faster.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#define CXXRUN_CUDA_SEAM __attribute__((visibility("default")))

namespace cxxrun::cuda {

/// The order in which squares are added, which depends only on count and type. A pack is 16 bytes of elements. Thread t
/// of block b adds the elements of packs b * kSquareThreads + t, that plus kSquareBlocks * kSquareThreads, and so on.
/// The elements after the last whole pack are added one each by the first threads of block 0. Then each block's threads
/// are folded in halves (t += t + 128, t += t + 64, …), and so are the blocks' sums. tests/support/square_order.hpp
/// does the same.
inline constexpr unsigned kSquareThreads = 256;
inline constexpr unsigned kSquareBlocks = 1024;

}  // namespace cxxrun::cuda

extern "C" {

/// *word = value; the first kernel run on a device.
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_probe(std::uint32_t* word, std::uint32_t value, cudaStream_t stream);
/// to = from * scale in the wire format (1: bf16, 2: f16).
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_encode(std::uint8_t wire, float const* from, void* to,
                                                       std::uint64_t count, float scale, cudaStream_t stream);
/// to = from * scale.
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_decode(std::uint8_t wire, void const* from, float* to,
                                                       std::uint64_t count, float scale, cudaStream_t stream);
/// to = comm::scaled(from), where `to` may equal `from`; data = comm::multiplied(data). Types f32, f64, f16, bf16.
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_scale(std::uint8_t type, void const* from, void* to,
                                                      std::uint64_t count, float scale, cudaStream_t stream);
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_multiply(std::uint8_t type, void* data, std::uint64_t count,
                                                         double factor, cudaStream_t stream);
/// *sum += Σ data[i]². `partial`: kSquareBlocks doubles on the device for the blocks' sums.
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_add_squares(std::uint8_t type, void const* data, std::uint64_t count,
                                                            double* partial, double* sum, cudaStream_t stream);

/// Whether libcuda.so.1 can be loaded: 1 or 0.
CXXRUN_CUDA_SEAM std::int32_t cxxrun_cuda_driver_found();
/// Whether this process has a context on the device: 1 or 0. Creates none.
CXXRUN_CUDA_SEAM std::int32_t cxxrun_cuda_has_context(std::int32_t device);
}
