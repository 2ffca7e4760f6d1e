#include "src/runtime/cuda/device.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

#include "src/runtime/cuda/device_kernels.hpp"

namespace cxxrun::cuda {

// ---- errors

namespace {

template <class Detail, class... Words>
std::int32_t fill(Status* status, cxxrun_cuda_code code, Detail detail, char const* format, Words... words) {
  status->code = code;
  status->detail = static_cast<std::int32_t>(detail);
  std::snprintf(status->text, sizeof(status->text), format, words...);
  return status->code;
}

}  // namespace

std::int32_t fine(Status* status) {
  status->code = CXXRUN_CUDA_OK;
  status->detail = 0;
  status->text[0] = '\0';
  return status->code;
}

std::int32_t in_progress(Status* status) {
  fine(status);
  status->code = CXXRUN_CUDA_IN_PROGRESS;
  return status->code;
}

std::int32_t failed(Status* status, char const* call, cudaError_t error) {
  static_cast<void>(cudaGetLastError());  // the program would take it for an error of its own next kernel
  return fill(status, CXXRUN_CUDA_CUDA, error, "%s: %s (%s)", call, cudaGetErrorString(error), cudaGetErrorName(error));
}

std::int32_t outcome(Status* status, char const* call, cudaError_t error) {
  return error == cudaSuccess ? fine(status) : failed(status, call, error);
}

std::int32_t failed(Status* status, char const* call, ncclResult_t error) {
  char const* const reason = ncclGetLastError(nullptr);  // of the process: NCCL asks for no communicator
  bool const known = reason != nullptr && reason[0] != '\0';
  return fill(status, CXXRUN_CUDA_NCCL, error, known ? "%s: %s (%s)" : "%s: %s", call, ncclGetErrorString(error),
              known ? reason : "");
}

std::int32_t outcome(Status* status, char const* call, ncclResult_t error) {
  return error == ncclSuccess ? fine(status) : failed(status, call, error);
}

std::int32_t refused(Status* status, ncclResult_t error, char const* sentence) {
  return fill(status, CXXRUN_CUDA_NCCL, error, "%s", sentence);
}

std::int32_t unsupported(Status* status, char const* sentence) {
  return fill(status, CXXRUN_CUDA_UNSUPPORTED, 0, "%s", sentence);
}

int loaded_nccl() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

std::int32_t check_nccl(Status* status) {
  int const version = loaded_nccl();
  if (version >= kOldestNccl) {
    return fine(status);
  }
  return fill(status, CXXRUN_CUDA_UNSUPPORTED, 0, "this is NCCL %d.%d.%d; the oldest that is used is 2.19",
              version / 10000, version / 100 % 100, version % 100);
}

// ---- the device

namespace {

std::atomic<int> g_opened{-1};
constexpr std::uint32_t kProbe = 0x600dca7U;

template <std::size_t N>
void copy_text(char (&to)[N], char const* from) {
  std::size_t const length = strnlen(from, N - 1);
  std::memcpy(to, from, length);
  to[length] = '\0';
}

/// Writes "GPU-" and the 16 bytes in groups, as nvidia-smi does.
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

/// The driver loads a kernel at its first launch, and may wait for the device to become idle: later that would mean
/// waiting behind a kernel that waits for a peer. So each kernel is launched once here, on zeros, both with addresses
/// that are multiples of 16 bytes and with others, which use different kernels.
cudaError_t load_kernels(std::byte* zeros) {
  constexpr std::size_t kBeside = 8;
  auto* const partial = reinterpret_cast<double*>(zeros);
  auto* const sum = partial + kSquareBlocks;
  auto* const values = zeros + (kSquareBlocks + 2) * sizeof(double);
  auto* const encoded = values + 2 * kBeside * sizeof(double);
  auto error = cudaSuccess;
  auto const keep = [&error](cudaError_t now) { error = error == cudaSuccess ? now : error; };
  for (std::size_t const shift : {std::size_t{0}, kBeside}) {
    auto* const at = values + shift;
    auto* const floats = reinterpret_cast<float*>(at);
    for (std::uint8_t type = 0; type < 4; ++type) {
      keep(cxxrun_cuda_launch_scale(type, at, at, 1, 1.0F, nullptr));
      keep(cxxrun_cuda_launch_multiply(type, at, 1, 1.0, nullptr));
      keep(cxxrun_cuda_launch_add_squares(type, at, 1, partial, sum, nullptr));
    }
    for (std::uint8_t wire = 1; wire < 3; ++wire) {
      keep(cxxrun_cuda_launch_encode(wire, floats, encoded, 1, 1.0F, nullptr));
      keep(cxxrun_cuda_launch_decode(wire, encoded, floats, 1, 1.0F, nullptr));
    }
  }
  return error;
}
constexpr std::size_t kRoom = (kSquareBlocks + 64) * sizeof(double);

/// Has a kernel write one word, and reads it back.
cudaError_t probe(std::uint32_t* word, std::uint32_t* back) {
  auto const error = cxxrun_cuda_launch_probe(word, kProbe, nullptr);
  return error == cudaSuccess ? cudaMemcpy(back, word, sizeof(*back), cudaMemcpyDeviceToHost) : error;
}

std::int32_t run_first_kernels(Status* status) {
  void* room = nullptr;
  if (auto const error = cudaMalloc(&room, kRoom); error != cudaSuccess) {
    return failed(status, "cudaMalloc", error);
  }
  std::uint32_t back = 0;
  auto error = probe(static_cast<std::uint32_t*>(room), &back);
  outcome(status, "the first kernel", error);
  if (error == cudaSuccess && back != kProbe) {
    failed(status, "the first kernel wrote a wrong value", cudaErrorUnknown);
  }
  if (status->code == CXXRUN_CUDA_OK) {
    error = cudaMemset(room, 0, kRoom);
    error = error == cudaSuccess ? load_kernels(static_cast<std::byte*>(room)) : error;
    error = error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
    outcome(status, "loading the kernels", error);
  }
  cudaFree(room);
  return status->code;
}

/// After a kernel has failed, CUDA answers every call with its error. Waits for nothing and allocates nothing.
std::int32_t is_answering(Status* status) {
  cudaEvent_t event = nullptr;
  auto error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (error == cudaSuccess) {
    error = cudaEventQuery(event);
    cudaEventDestroy(event);
  }
  return outcome(status, "the device", error);
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
  OnDevice const lets_captures_go_on(ordinal);
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
  if (g_opened.load() == ordinal) {  // its kernels are loaded, and other communicators of this process may be using it
    return is_answering(status);
  }
  if (run_first_kernels(status) == CXXRUN_CUDA_OK) {
    g_opened.store(ordinal);
  }
  return status->code;
}

int opened_device() {
  return g_opened.load();
}

std::int32_t is_device_memory(void const* pointer, Status* status) {
  OnDevice const here(opened_device());  // the question needs a context, and creates one on the current device
  cudaPointerAttributes attributes{};
  if (auto const error = cudaPointerGetAttributes(&attributes, pointer); error != cudaSuccess) {
    failed(status, "cudaPointerGetAttributes", error);
    return -1;
  }
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged ? 1 : 0;
}

std::int32_t is_captured(void* stream, Status* status) {
  OnDevice const here(opened_device());  // as above; null is the default stream of the current device
  auto capture = cudaStreamCaptureStatusNone;
  auto const error = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &capture);
  if (error == cudaErrorStreamCaptureImplicit) {  // the default stream, while a stream that waits for it is captured
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
  int now = -1;
  if (device >= 0 && cudaGetDevice(&now) == cudaSuccess && now != device) {
    before_ = now;
    cudaSetDevice(device);
  }
  if (cudaThreadExchangeStreamCaptureMode(&mode_) != cudaSuccess) {
    mode_ = cudaStreamCaptureModeRelaxed;
  }
}

OnDevice::~OnDevice() {
  if (mode_ != cudaStreamCaptureModeRelaxed) {
    cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  if (before_ >= 0 && cxxrun_cuda_has_context(before_) != 0) {
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

std::int32_t cxxrun_cuda_has_context(std::int32_t device) {
  using State = int (*)(int device, unsigned* flags, int* active);  // CUresult is 0 for success
  static State const state_of = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);  // stays loaded, as it is for cudart
    return reinterpret_cast<State>(driver == nullptr ? nullptr : dlsym(driver, "cuDevicePrimaryCtxGetState"));
  }();
  unsigned flags = 0;
  int active = 0;
  return state_of != nullptr && state_of(device, &flags, &active) == 0 ? active : 0;
}
