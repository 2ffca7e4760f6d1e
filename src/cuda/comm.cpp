#include "src/cuda/comm.hpp"

#include <cstring>
#include <memory>

#include "src/cuda/device.hpp"
#include "src/cuda/kernels.hpp"

namespace cxxrun::cuda {
namespace {

static_assert(CXXRUN_CUDA_ID_BYTES == NCCL_UNIQUE_ID_BYTES);
static_assert(NCCL_VERSION_CODE >= kOldestNccl, "NCCL 2.19 or later is needed");

std::int32_t begin_nccl(Comm* comm, std::uint8_t const* id, Status* status) {
  if (check_nccl(status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  ncclUniqueId unique{};
  std::memcpy(&unique, id, sizeof(unique));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t nccl = nullptr;
  auto const error = ncclCommInitRankConfig(&nccl, comm->world, unique, comm->rank, &config);
  if (error != ncclSuccess && error != ncclInProgress) {
    failed(status, "ncclCommInitRankConfig", error, nullptr);
    if (nccl != nullptr) {
      ncclCommAbort(nccl);
    }
    return status->code;
  }
  comm->nccl = nccl;
  return fine(status);
}

}  // namespace

std::int32_t unique_id(std::uint8_t* id, Status* status) {
  if (check_nccl(status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  ncclUniqueId unique{};
  if (auto const error = ncclGetUniqueId(&unique); error != ncclSuccess) {
    return failed(status, "ncclGetUniqueId", error, nullptr);
  }
  std::memcpy(id, &unique, sizeof(unique));
  return fine(status);
}

std::int32_t comm_begin(std::uint8_t const* id, std::int32_t rank, std::int32_t world, Comm** comm, Status* status) {
  *comm = nullptr;
  if (opened_device() < 0) {
    return refused(status, ncclInvalidUsage, "no device was opened before the communicator");
  }
  if (world < 1 || rank < 0 || rank >= world) {
    return refused(status, ncclInvalidArgument, "this rank is not one of this world");
  }
  auto made = std::make_unique<Comm>(opened_device());
  made->rank = rank;
  made->world = world;
  OnDevice const here(made->device);
  if (made->timeline.open(status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  if (auto const error = cudaMalloc(reinterpret_cast<void**>(&made->partial), kSquareBlocks * sizeof(double));
      error != cudaSuccess) {
    return failed(status, "cudaMalloc", error);
  }
  if (world > 1 && begin_nccl(made.get(), id, status) != CXXRUN_CUDA_OK) {
    cudaFree(made->partial);
    return status->code;
  }
  *comm = made.release();
  return fine(status);
}

std::int32_t nccl_state(Comm* comm, Status* status) {
  if (comm->aborted) {
    return refused(status, ncclInvalidUsage, "the communicator was aborted");
  }
  ncclComm_t const nccl = comm->nccl;
  if (nccl == nullptr) {
    return fine(status);
  }
  ncclResult_t state = ncclSuccess;
  if (auto const error = ncclCommGetAsyncError(nccl, &state); error != ncclSuccess) {
    return failed(status, "ncclCommGetAsyncError", error, nccl);
  }
  if (state == ncclInProgress) {
    return in_progress(status);
  }
  return state == ncclSuccess ? fine(status) : failed(status, "NCCL", state, nccl);
}

std::int32_t poll(Comm* comm, Status* status) {
  if (nccl_state(comm, status) != CXXRUN_CUDA_OK || comm->step == Step::none) {
    return status->code;
  }
  OnDevice const here(comm->device);
  return advance(comm, status);
}

std::int32_t ready(Comm* comm, Status* status) {
  if (comm->aborted) {
    return refused(status, ncclInvalidUsage, "the communicator was aborted");
  }
  if (comm->step != Step::none) {
    return refused(status, ncclInvalidUsage, "the call before this one is still in progress: poll first");
  }
  return fine(status);
}

void abort(Comm* comm) {
  comm->aborted = true;
  ncclComm_t const nccl = comm->nccl.exchange(nullptr);
  if (nccl != nullptr) {
    OnDevice const here(comm->device);
    comm->memory.lose_windows();
    ncclCommAbort(nccl);
  }
}

std::int32_t finalize(Comm* comm, Status* status) {
  ncclComm_t const nccl = comm->nccl;
  if (comm->aborted || nccl == nullptr) {
    return comm->aborted ? ready(comm, status) : fine(status);
  }
  OnDevice const here(comm->device);
  if (!comm->finalizing) {
    if (ready(comm, status) != CXXRUN_CUDA_OK || comm->memory.close_windows(nccl, status) != CXXRUN_CUDA_OK) {
      return status->code;
    }
    comm->finalizing = true;
    auto const error = ncclCommFinalize(nccl);
    if (error != ncclSuccess && error != ncclInProgress) {
      return failed(status, "ncclCommFinalize", error, nccl);
    }
  }
  if (nccl_state(comm, status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  comm->nccl = nullptr;
  auto const error = ncclCommDestroy(nccl);
  return error == ncclSuccess ? fine(status) : failed(status, "ncclCommDestroy", error, nullptr);
}

void comm_free(Comm* comm) {
  if (comm == nullptr) {
    return;
  }
  abort(comm);  // nothing, if it was finalized
  OnDevice const here(comm->device);
  cudaStreamSynchronize(comm->timeline.stream());
  cudaFree(comm->partial);
  cudaFree(comm->spare);
  delete comm;
}

}  // namespace cxxrun::cuda
