// Which calls of CUDA's wait behind a kernel, and whether whoever asks how far the device is waits with them. Without
// NCCL: a kernel that spins stands for one of NCCL's whose peer has died.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <thread>

#include "tests/gpu/gpu_check.hpp"

namespace cxxrun::gpu_check {
namespace {

struct Times {
  double call = 0;        ///< ms that the call took
  bool late = false;      ///< the kernel was over before it
  bool outlasts = false;  ///< the kernel was over when it returned
  int answers = 0;        ///< to questions about the kernel's event meanwhile
  double longest = 0;     ///< of those questions, in ms
};

Times beside_kernel(int device, std::uint64_t nanoseconds, std::function<cudaError_t()> const& call) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  Times times;
  cudaError_t result = cudaSuccess;
  std::atomic<bool> inside{false};
  spin(stream, nanoseconds);
  cuda(cudaEventRecord(event, stream), "cudaEventRecord");
  std::thread other([&] {
    cudaSetDevice(device);
    times.late = cudaEventQuery(event) != cudaErrorNotReady;
    auto const from = Clock::now();
    inside = true;
    result = call();
    inside = false;
    times.call = milliseconds(Clock::now() - from);
    times.outlasts = cudaEventQuery(event) != cudaErrorNotReady;
  });
  for (auto code = cudaErrorNotReady; code == cudaErrorNotReady;) {
    auto const from = Clock::now();
    code = cudaEventQuery(event);
    times.longest = std::max(times.longest, milliseconds(Clock::now() - from));
    times.answers += inside && code == cudaErrorNotReady ? 1 : 0;
  }
  other.join();
  cuda(result, "the call beside the kernel");
  cuda(cudaEventDestroy(event), "cudaEventDestroy");
  cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return times;
}

}  // namespace

int check_driver(cxxrun_cuda_api const& /*api*/, Arguments const& arguments) {
  std::uint64_t const nanoseconds = arguments.quick ? 50'000'000 : 500'000'000;
  std::size_t const bytes = std::size_t{arguments.quick ? 1U : 64U} << 20U;
  void* device = nullptr;
  void* host = nullptr;
  std::vector<std::pair<char const*, std::function<cudaError_t()>>> const calls{
      {"nothing", [] { return cudaSuccess; }},
      {"cudaMalloc", [&] { return cudaMalloc(&device, bytes); }},
      {"cudaFree", [&] { return cudaFree(device); }},
      {"cudaHostAlloc", [&] { return cudaHostAlloc(&host, bytes, cudaHostAllocDefault); }},
      {"cudaFreeHost", [&] { return cudaFreeHost(host); }}};
  beside_kernel(arguments.device, 1000, [] { return cudaSuccess; });  // the kernel is loaded
  for (auto const& [name, call] : calls) {
    auto const times = beside_kernel(arguments.device, nanoseconds, call);
    std::printf("%s %.1f ms: %s; %d answers of cudaEventQuery meanwhile, the longest question %.1f ms\n", name,
                times.call,
                times.late       ? "came too late"
                : times.outlasts ? "waits"
                                 : "does not wait",
                times.answers, times.longest);
  }
  std::printf("ok: beside a kernel of %.0f ms\n", static_cast<double>(nanoseconds) / 1e6);
  return 0;
}

}  // namespace cxxrun::gpu_check
