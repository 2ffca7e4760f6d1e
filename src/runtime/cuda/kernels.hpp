// What runs on the device, and the one question about its driver: functions that a test replaces.
//
// They are exported by the plugin, so that a library loaded before it can stand in for them, as for cudart's and NCCL's
// own functions: tests/support/cuda_double runs the plugin without a GPU. Types, wires and operations by number as in
// src/base/core/call.hpp. Each queues its work on `stream` and returns what the launch returned. Buffers need the
// alignment of their elements; those at multiples of 16 bytes are faster.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#define CXXRUN_CUDA_SEAM __attribute__((visibility("default")))

namespace cxxrun::cuda {

/// The order of additions of squares, which depends on count and type alone. A pack is 16 bytes of elements. Thread t
/// of block b adds the elements of the packs b * kSquareThreads + t, that plus kSquareBlocks * kSquareThreads, …; of
/// the elements that fill no pack the first threads of block 0 add one each. Then each block's threads are folded in
/// halves (t += t + 128, t += t + 64, …), and so are the blocks' sums. tests/support/square_order.hpp does the same.
inline constexpr unsigned kSquareThreads = 256;
inline constexpr unsigned kSquareBlocks = 1024;

}  // namespace cxxrun::cuda

extern "C" {

/// *word = value: the first kernel of a device.
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_probe(std::uint32_t* word, std::uint32_t value, cudaStream_t stream);
/// to = from * scale in the wire's format (1: bf16, 2: f16).
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_encode(std::uint8_t wire, float const* from, void* to,
                                                       std::uint64_t count, float scale, cudaStream_t stream);
/// to = from * scale.
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_decode(std::uint8_t wire, void const* from, float* to,
                                                       std::uint64_t count, float scale, cudaStream_t stream);
/// to = comm::scaled(from), which may be the same; data = comm::multiplied(data): f32, f64, f16, bf16.
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_scale(std::uint8_t type, void const* from, void* to,
                                                      std::uint64_t count, float scale, cudaStream_t stream);
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_multiply(std::uint8_t type, void* data, std::uint64_t count,
                                                         double factor, cudaStream_t stream);
/// *sum += Σ data[i]². `partial`: kSquareBlocks doubles of the device for the blocks' sums.
CXXRUN_CUDA_SEAM cudaError_t cxxrun_cuda_launch_add_squares(std::uint8_t type, void const* data, std::uint64_t count,
                                                            double* partial, double* sum, cudaStream_t stream);

/// Whether libcuda.so.1 can be loaded: 1 or 0.
CXXRUN_CUDA_SEAM std::int32_t cxxrun_cuda_driver_found();
}
