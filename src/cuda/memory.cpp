#include "src/cuda/memory.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#if CXXRUN_CUDA_HAS_WINDOWS
// Weak: an older library that is loaded instead of the one compiled with may lack them.
#pragma weak ncclCommWindowRegister
#pragma weak ncclCommWindowDeregister
#endif

namespace cxxrun::cuda {
namespace {

bool has_windows() {
#if CXXRUN_CUDA_HAS_WINDOWS
  return ncclCommWindowRegister != nullptr && ncclCommWindowDeregister != nullptr &&
         loaded_nccl() >= nccl_version(2, 27, 0);
#else
  return false;
#endif
}

bool aborting_frees_windows() {
  return loaded_nccl() >= nccl_version(2, 29, 7);
}

/// Memory whose windows were lost, of all communicators of this process.
class Kept {
 public:
  void put(int device, std::uint64_t bytes, void* memory) {
    std::lock_guard const lock(mutex_);
    all_.emplace(std::pair(device, bytes), memory);
  }
  void* take(int device, std::uint64_t bytes) {
    std::lock_guard const lock(mutex_);
    auto const found = all_.extract({device, bytes});
    return found ? found.mapped() : nullptr;
  }

 private:
  std::mutex mutex_;
  std::multimap<std::pair<int, std::uint64_t>, void*> all_;
};

Kept& kept() {
  static auto& all = *new Kept;  // communicators may outlive static objects
  return all;
}

}  // namespace

Memory::~Memory() {
  for (auto const& piece : pieces_) {
    if (piece.window != nullptr && windows_lost_ && !aborting_frees_windows()) {
      kept().put(device_, piece.bytes, piece.memory);
    } else if (piece.nccl) {
      ncclMemFree(piece.memory);
    } else {
      cudaFree(piece.memory);
    }
  }
}

std::int32_t Memory::allocate(ncclComm_t comm, std::uint64_t bytes, cudaStream_t stream, void** memory,
                              Status* status) {
  bool const window = comm != nullptr && has_windows();
  Piece piece;
  piece.bytes = std::max<std::uint64_t>(bytes, 1);
  piece.memory = window ? kept().take(device_, piece.bytes) : nullptr;
  piece.nccl = comm != nullptr;
  if (piece.memory == nullptr && piece.nccl) {
    auto const error = ncclMemAlloc(&piece.memory, piece.bytes);
    if (error != ncclSuccess && window) {
      return failed(status, "ncclMemAlloc", error, nullptr);  // the others register theirs: all ranks or none
    }
    piece.nccl = error == ncclSuccess;
  }
  if (piece.memory == nullptr) {
    if (auto const error = cudaMalloc(&piece.memory, piece.bytes); error != cudaSuccess) {
      return failed(status, "cudaMalloc", error);
    }
  }
  pieces_.push_back(piece);
  *memory = piece.memory;
  if (auto const error = cudaMemsetAsync(piece.memory, 0, piece.bytes, stream); error != cudaSuccess) {
    return failed(status, "cudaMemsetAsync", error);
  }
#if CXXRUN_CUDA_HAS_WINDOWS
  if (window) {
    auto const error =
        ncclCommWindowRegister(comm, piece.memory, piece.bytes, &pieces_.back().window, NCCL_WIN_COLL_SYMMETRIC);
    if (error == ncclInProgress) {
      return in_progress(status);
    }
    if (error != ncclSuccess) {
      return failed(status, "ncclCommWindowRegister", error, comm);
    }
  }
#endif
  return fine(status);
}

std::int32_t Memory::close_windows(ncclComm_t comm, Status* status) {
#if CXXRUN_CUDA_HAS_WINDOWS
  for (auto& piece : pieces_) {
    if (piece.window == nullptr) {
      continue;
    }
    if (auto const error = ncclCommWindowDeregister(comm, piece.window); error != ncclSuccess) {
      return failed(status, "ncclCommWindowDeregister", error, comm);
    }
    piece.window = nullptr;
  }
#else
  static_cast<void>(comm);
#endif
  return fine(status);
}

}  // namespace cxxrun::cuda
