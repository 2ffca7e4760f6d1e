#include "src/runtime/cuda/memory.hpp"

#include <algorithm>
#include <utility>

#if CXXRUN_CUDA_HAS_WINDOWS
// Weak: an older library that is loaded instead of the one compiled with may lack them.
#pragma weak ncclCommWindowRegister
#pragma weak ncclCommWindowDeregister
#endif

namespace cxxrun::cuda {
namespace {

/// Before 2.29.7 the kernels that NCCL chooses for symmetric windows look at no abort flag while they wait for a peer.
bool has_windows() {
#if CXXRUN_CUDA_HAS_WINDOWS
  return ncclCommWindowRegister != nullptr && ncclCommWindowDeregister != nullptr &&
         loaded_nccl() >= nccl_version(2, 29, 7);
#else
  return false;
#endif
}

}  // namespace

Memory::~Memory() {
  for (auto const& piece : pieces_) {
    if (piece.nccl) {
      ncclMemFree(piece.memory);
    } else {
      cudaFree(piece.memory);
    }
  }
}

namespace {

/// NCCL's own memory for what its collectives use; of a world of one the device's.
std::int32_t take(bool of_nccl, void** memory, std::uint64_t bytes, Status* status) {
  if (!of_nccl) {
    return outcome(status, "cudaMalloc", cudaMalloc(memory, bytes));
  }
  auto const error = ncclMemAlloc(memory, bytes);
  return error == ncclSuccess ? fine(status) : failed(status, "ncclMemAlloc", error);
}

std::int32_t registered(char const* call, ncclResult_t error, Status* status) {
  return error == ncclSuccess ? fine(status) : failed(status, call, error);
}

}  // namespace

std::int32_t Memory::allocate(bool of_nccl, std::uint64_t bytes, cudaStream_t stream, void** memory, Status* status) {
  Piece piece;
  piece.bytes = std::max<std::uint64_t>(bytes, 1);
  piece.nccl = of_nccl;
  if (take(of_nccl, &piece.memory, piece.bytes, status) != CXXRUN_CUDA_OK) {
    return status->code;  // the others register theirs: all ranks or none
  }
  pieces_.push_back(piece);
  *memory = piece.memory;
  return outcome(status, "cudaMemsetAsync", cudaMemsetAsync(piece.memory, 0, piece.bytes, stream));
}

std::int32_t Memory::enlist(ncclComm_t comm, Status* status) {
  auto& piece = pieces_.back();
#if CXXRUN_CUDA_HAS_WINDOWS
  if (has_windows()) {
    return registered("ncclCommWindowRegister",
                      ncclCommWindowRegister(comm, piece.memory, piece.bytes, &piece.window, NCCL_WIN_COLL_SYMMETRIC),
                      status);
  }
#endif
  return registered("ncclCommRegister", ncclCommRegister(comm, piece.memory, piece.bytes, &piece.handle), status);
}

std::int32_t Memory::deregister(ncclComm_t comm, Status* status) {
  for (auto& piece : pieces_) {
    auto error = ncclSuccess;
#if CXXRUN_CUDA_HAS_WINDOWS
    if (piece.window != nullptr) {
      error = ncclCommWindowDeregister(comm, std::exchange(piece.window, nullptr));
    }
#endif
    if (piece.handle != nullptr) {
      error = ncclCommDeregister(comm, std::exchange(piece.handle, nullptr));
    }
    if (registered("giving up registered memory", error, status) != CXXRUN_CUDA_OK) {
      return status->code;
    }
  }
  return fine(status);
}

}  // namespace cxxrun::cuda
