// A kernel that takes a given time: what stands for the backward pass. And one that fails.
#include <cstdint>

namespace {

__global__ void spin_kernel(std::uint64_t nanoseconds) {
  std::uint64_t start = 0;
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

__global__ void trap_kernel() {
  asm volatile("trap;");
}

}  // namespace

cudaError_t launch_spin(cudaStream_t stream, std::uint64_t nanoseconds) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, spin_kernel, nanoseconds);
}

cudaError_t launch_trap(cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, trap_kernel);
}
