// A stream and memory of a device, and how work gets there.
//
// This is C++17, because nvcc with CMake 3.25 compiles no more. Compiled by a plain C++ compiler each() runs the same
// loop on the host, in the stream's order: for tests on a machine without a GPU, where something stands in for CUDA
// (docs/evidence/gpu.md). On a real device that would not work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include <cuda_runtime_api.h>

#ifdef __CUDACC__
#define TRAIN_DEVICE __device__
#define TRAIN_FOR_TYPES(INSTANTIATE) INSTANTIATE(float)
#else
#define TRAIN_DEVICE
#define TRAIN_FOR_TYPES(INSTANTIATE) \
  INSTANTIATE(float) INSTANTIATE(double)  // double: to compare with ../train/layers.cpp
#endif

namespace train {

/// Of n values, each step behind the one before.
template <class T>
TRAIN_DEVICE T dot(T const* a, T const* b, std::size_t n, std::size_t a_step = 1, std::size_t b_step = 1) {
  T sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += a[i * a_step] * b[i * b_step];
  }
  return sum;
}

/// Throws cxxrun::Failure with CUDA's words and `what` when it is an error.
void check(cudaError_t error, char const* what);

/// Of the device that is the thread's when it is made.
class DeviceStream {
 public:
  DeviceStream();
  DeviceStream(DeviceStream const&) = delete;
  DeviceStream& operator=(DeviceStream const&) = delete;
  ~DeviceStream();  ///< waits for what is queued
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Memory for `count` values, which are not initialized.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t count) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(1, count) * sizeof(T)), "cudaMalloc");
  }
  DeviceBuffer(DeviceBuffer const&) = delete;
  DeviceBuffer& operator=(DeviceBuffer const&) = delete;
  ~DeviceBuffer() { cudaFree(data_); }
  [[nodiscard]] T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

#ifdef __CUDACC__

template <class Body>
__global__ void each_kernel(std::size_t count, Body body) {
  std::size_t const threads = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += threads) {
    body(i);
  }
}

/// Queues body(i) for each i below `count`, in any order or at once. `body` is copied to the device.
template <class Body>
void each(cudaStream_t stream, std::size_t count, Body const& body) {
  constexpr unsigned kThreads = 256;
  if (count > 0) {
    auto const blocks = std::min<std::size_t>((count + kThreads - 1) / kThreads, 1U << 20U);
    each_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(count, body);
    check(cudaGetLastError(), "a kernel");
  }
}

#else

template <class Body>
void each(cudaStream_t stream, std::size_t count, Body const& body) {
  struct Loop {
    std::size_t count;
    Body body;
  };
  auto const run = [](void* data) {
    std::unique_ptr<Loop> const loop(static_cast<Loop*>(data));
    for (std::size_t i = 0; i < loop->count; ++i) {
      loop->body(i);
    }
  };
  check(cudaLaunchHostFunc(stream, run, new Loop{count, body}), "cudaLaunchHostFunc");
}

#endif

}  // namespace train
