#include "src/runtime/cuda/status.hpp"

#include <cstdio>

namespace cxxrun::cuda {

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

}  // namespace cxxrun::cuda
