#include "src/cuda/device.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

#include "src/cuda/kernels.hpp"

namespace cxxrun::cuda {
namespace {

std::atomic<int> g_opened{-1};
constexpr std::uint32_t kProbe = 0x600dca7U;

template <std::size_t N>
void copy_text(char (&to)[N], char const* from) {
  std::size_t const length = strnlen(from, N - 1);
  std::memcpy(to, from, length);
  to[length] = '\0';
}

/// "GPU-" and the 16 bytes in groups, as nvidia-smi writes it.
template <std::size_t N>
void write_uuid(char (&to)[N], cudaUUID_t const& uuid) {
  std::size_t at = 4;
  copy_text(to, "GPU-");
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    bool const dash = i == 4 || i == 6 || i == 8 || i == 10;
    at += static_cast<std::size_t>(
        std::snprintf(to + at, N - at, dash ? "-%02x" : "%02x", static_cast<unsigned char>(uuid.bytes[i])));
  }
}

/// One word from a kernel and back.
std::int32_t run_first_kernel(Status* status) {
  std::uint32_t* word = nullptr;
  if (auto const error = cudaMalloc(reinterpret_cast<void**>(&word), sizeof(*word)); error != cudaSuccess) {
    return failed(status, "cudaMalloc", error);
  }
  std::uint32_t back = 0;
  auto error = cxxrun_cuda_launch_probe(word, kProbe, nullptr);
  if (error == cudaSuccess) {
    error = cudaMemcpy(&back, word, sizeof(back), cudaMemcpyDeviceToHost);
  }
  cudaFree(word);
  if (error != cudaSuccess) {
    return failed(status, "the first kernel", error);
  }
  if (back != kProbe) {
    return failed(status, "the first kernel wrote something else than it was told", cudaErrorUnknown);
  }
  return fine(status);
}

}  // namespace

void facts(cxxrun_cuda_facts* facts) {
  std::memset(facts, 0, sizeof(*facts));
  facts->nccl_header = NCCL_VERSION_CODE;
  facts->nccl = loaded_nccl();
  facts->driver_found = cxxrun_cuda_driver_found();
  cudaRuntimeGetVersion(&facts->cuda_runtime);
  cudaDriverGetVersion(&facts->cuda_driver);
  auto const error = cudaGetDeviceCount(&facts->devices);
  facts->count_error = static_cast<std::int32_t>(error);
  if (error != cudaSuccess) {
    facts->devices = 0;
    std::snprintf(facts->count_text, sizeof(facts->count_text), "%s (%s)", cudaGetErrorString(error),
                  cudaGetErrorName(error));
  }
}

std::int32_t open_device(std::int32_t ordinal, cxxrun_cuda_device_facts* facts, Status* status) {
  std::memset(facts, 0, sizeof(*facts));
  if (auto const error = cudaSetDevice(ordinal); error != cudaSuccess) {
    return failed(status, "cudaSetDevice", error);
  }
  cudaDeviceProp properties{};
  if (auto const error = cudaGetDeviceProperties(&properties, ordinal); error != cudaSuccess) {
    return failed(status, "cudaGetDeviceProperties", error);
  }
  copy_text(facts->name, properties.name);
  write_uuid(facts->uuid, properties.uuid);
  facts->sm = properties.major * 10 + properties.minor;
  facts->memory = properties.totalGlobalMem;
  if (auto const error = cudaDeviceGetPCIBusId(facts->bus_id, static_cast<int>(sizeof(facts->bus_id)), ordinal);
      error != cudaSuccess) {
    return failed(status, "cudaDeviceGetPCIBusId", error);
  }
  if (run_first_kernel(status) == CXXRUN_CUDA_OK) {
    g_opened.store(ordinal);
  }
  return status->code;
}

int opened_device() {
  return g_opened.load();
}

std::int32_t is_device_memory(void const* pointer, Status* status) {
  cudaPointerAttributes attributes{};
  if (auto const error = cudaPointerGetAttributes(&attributes, pointer); error != cudaSuccess) {
    failed(status, "cudaPointerGetAttributes", error);
    return -1;
  }
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged ? 1 : 0;
}

std::int32_t is_captured(void* stream, Status* status) {
  auto capture = cudaStreamCaptureStatusNone;
  auto const error = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &capture);
  if (error == cudaErrorStreamCaptureImplicit) {  // the default stream, beside one that waits for it
    static_cast<void>(cudaGetLastError());
    return 1;
  }
  if (error != cudaSuccess) {
    failed(status, "cudaStreamIsCapturing", error);
    return -1;
  }
  return capture == cudaStreamCaptureStatusNone ? 0 : 1;
}

OnDevice::OnDevice(int device) {
  if (cudaThreadExchangeStreamCaptureMode(&mode_) != cudaSuccess) {
    mode_ = cudaStreamCaptureModeRelaxed;
  }
  int now = -1;
  if (cudaGetDevice(&now) == cudaSuccess && now != device) {
    before_ = now;
    cudaSetDevice(device);
  }
}

OnDevice::~OnDevice() {
  if (mode_ != cudaStreamCaptureModeRelaxed) {
    cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  if (before_ >= 0) {
    cudaSetDevice(before_);
  }
}

}  // namespace cxxrun::cuda

std::int32_t cxxrun_cuda_driver_found() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) {
    dlclose(driver);
  }
  return driver != nullptr ? 1 : 0;
}
