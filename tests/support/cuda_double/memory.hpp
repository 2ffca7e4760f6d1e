// Memory of the double, for both libraries.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace cxxrun::cuda_double {

/// Of the calling thread's device.
cudaError_t allocate(void** memory, std::size_t bytes, cudaMemoryType type);
cudaError_t deallocate(void* memory);

}  // namespace cxxrun::cuda_double
