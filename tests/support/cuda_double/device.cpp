// Devices, memory and copies of the double.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "src/runtime/cuda/device_kernels.hpp"
#include "tests/support/cuda_double/memory.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/cuda_double/stream.hpp"

namespace cxxrun::cuda_double {
namespace {

thread_local int t_device = 0;  // NOLINT(readability-identifier-naming)

struct Piece {
  std::size_t bytes;
  cudaMemoryType type;
  int device;
};
struct Contexts {
  std::mutex mutex;
  std::set<int> devices;
};
Contexts& contexts() {
  static auto& all = *new Contexts;
  return all;
}

struct Pieces {
  std::mutex mutex;
  std::map<std::uintptr_t, Piece> at;
  std::map<int, std::uint64_t> used;
  std::map<std::uintptr_t, std::size_t> claimed;  ///< the program's, to be taken for the device's
};
Pieces& pieces() {
  static auto& all = *new Pieces;
  return all;
}

/// Numbers of the devices that are visible, by ordinal.
std::vector<int> visible() {
  [[maybe_unused]] static int const set = std::atexit([] { set_sticky_error(cudaErrorCudartUnloading); });
  std::vector<int> all;
  char const* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < script().devices; ++i) {
      all.push_back(i);
    }
    return all;
  }
  while (*text >= '0' && *text <= '9') {
    char* end = nullptr;
    auto const number = static_cast<int>(std::strtol(text, &end, 10));
    if (number >= script().devices) {
      break;
    }
    all.push_back(number);
    text = *end == ',' ? end + 1 : end;
  }
  return all;
}

}  // namespace

void need_context() {
  auto& all = contexts();
  std::lock_guard const lock(all.mutex);
  if (all.devices.insert(t_device).second) {
    count("context");
  }
}

cudaError_t allocate(void** memory, std::size_t bytes, cudaMemoryType type) {
  need_context();
  await_device();
  if (auto const error = unsafe(); error != cudaSuccess) {
    return answer(error);
  }
  auto& all = pieces();
  std::lock_guard const lock(all.mutex);
  auto& used = all.used[t_device];
  if (type == cudaMemoryTypeDevice && used + bytes > script().memory) {
    return answer(cudaErrorMemoryAllocation);
  }
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  std::memset(*memory, 0xcd, bytes);  // nobody may count on zeros
  all.at[reinterpret_cast<std::uintptr_t>(*memory)] = {bytes, type, t_device};
  used += type == cudaMemoryTypeDevice ? bytes : 0;
  return cudaSuccess;
}

cudaError_t deallocate(void* memory) {
  if (memory == nullptr) {
    return answer(state());
  }
  await_device();
  auto& all = pieces();
  std::lock_guard const lock(all.mutex);
  auto const found = all.at.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == all.at.end()) {
    return answer(cudaErrorInvalidValue);
  }
  all.used[found->second.device] -= found->second.type == cudaMemoryTypeDevice ? found->second.bytes : 0;
  all.at.erase(found);
  std::free(memory);
  return answer(state());
}

}  // namespace cxxrun::cuda_double

using namespace cxxrun::cuda_double;  // NOLINT(google-build-using-namespace)

extern "C" {

cudaError_t cudaGetDeviceCount(int* number) {
  auto const error = static_cast<cudaError_t>(script().driver_error);
  if (error == cudaSuccess) {
    *number = static_cast<int>(visible().size());
  }
  return answer(error == cudaSuccess && *number == 0 ? cudaErrorNoDevice : error);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = script().driver_version;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (state() == cudaSuccess && (device < 0 || device >= static_cast<int>(visible().size()))) {
    return answer(cudaErrorInvalidDevice);
  }
  t_device = device;
  if (state() == cudaSuccess) {
    need_context();  // since CUDA 12
  }
  return answer(state());
}
std::int32_t cxxrun_cuda_has_context(std::int32_t device) {
  auto& all = contexts();
  std::lock_guard const lock(all.mutex);
  return all.devices.contains(device) ? 1 : 0;
}
cudaError_t cudaGetDevice(int* device) {
  *device = t_device;
  return answer(state());
}
cudaError_t cudaDeviceSynchronize() {
  return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (state() != cudaSuccess) {
    return answer(state());
  }
  std::memset(properties, 0, sizeof(*properties));
  std::snprintf(properties->name, sizeof(properties->name), "Double of a GPU");
  int const number = script().same_uuid ? 0 : visible().at(static_cast<std::size_t>(device));
  char const* const host = std::getenv("CXXRUN_HOST_ID");
  std::string const text = (host != nullptr && !script().same_uuid ? host : "") + std::to_string(number);
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto& byte = properties->uuid.bytes[i % sizeof(properties->uuid.bytes)];
    byte = static_cast<char>(byte * 31 + text[i]);
  }
  properties->major = 9;
  properties->totalGlobalMem = script().memory;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0",
                visible().at(static_cast<std::size_t>(device)));
  return answer(state());
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  auto& all = pieces();
  std::lock_guard const lock(all.mutex);
  *total = script().memory;
  *free = *total - all.used[t_device];
  return answer(state());
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  count("cudaMalloc");
  return allocate(memory, bytes, cudaMemoryTypeDevice);
}
cudaError_t cudaFree(void* memory) {
  count("cudaFree");
  return deallocate(memory);
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  count("cudaHostAlloc");
  count("pinned bytes", bytes);
  return allocate(memory, bytes, cudaMemoryTypeHost);
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, 0);
}
cudaError_t cudaFreeHost(void* memory) {
  return deallocate(memory);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* pointer) {
  need_context();
  pass_driver();
  std::memset(attributes, 0, sizeof(*attributes));
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -2;
  auto& all = pieces();
  std::lock_guard const lock(all.mutex);
  auto const address = reinterpret_cast<std::uintptr_t>(pointer);
  auto const claimed = all.claimed.upper_bound(address);
  if (claimed != all.claimed.begin() && address - std::prev(claimed)->first < std::prev(claimed)->second) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = t_device;
    return answer(state());
  }
  auto const after = all.at.upper_bound(address);
  if (after != all.at.begin()) {
    auto const& [start, piece] = *std::prev(after);
    if (address < start + piece.bytes) {
      attributes->type = piece.type;
      attributes->device = piece.device;
    }
  }
  return answer(state());
}

void cxxrun_cuda_double_claim(void const* memory, std::size_t bytes) {
  auto& all = pieces();
  std::lock_guard const lock(all.mutex);
  auto const address = reinterpret_cast<std::uintptr_t>(memory);
  if (bytes == 0) {
    all.claimed.erase(address);
  } else {
    all.claimed[address] = bytes;
  }
}

cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  count("cudaMemcpyAsync");
  pass_driver();
  queue_of(stream)->push([=] { std::memmove(to, from, bytes); });
  return answer(state());
}
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  count("cudaMemsetAsync");
  pass_driver();
  queue_of(stream)->push([=] { std::memset(memory, value, bytes); });
  return answer(state());
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  cudaMemsetAsync(memory, value, bytes, nullptr);
  return cudaStreamSynchronize(nullptr);
}

}  // extern "C"
