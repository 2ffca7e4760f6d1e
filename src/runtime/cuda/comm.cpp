#include "src/runtime/cuda/comm.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <exception>
#include <utility>

#include <climits>

#include "src/base/os/thread.hpp"
#include "src/runtime/cuda/device_kernels.hpp"

#if CXXRUN_CUDA_HAS_WINDOWS
// Weak: the library loaded at run time may be older than the one compiled with, and lack them.
#pragma weak ncclCommWindowRegister
#pragma weak ncclCommWindowDeregister
#endif

namespace cxxrun::cuda {

// ---- memory

namespace {

/// Before NCCL 2.29.7 the kernels for symmetric windows do not check the abort flag while they wait for a peer.
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

/// NCCL's memory for what its collectives use; plain device memory in a world of one.
std::int32_t take(bool of_nccl, void** memory, std::uint64_t bytes, Status* status) {
  return of_nccl ? outcome(status, "ncclMemAlloc", ncclMemAlloc(memory, bytes))
                 : outcome(status, "cudaMalloc", cudaMalloc(memory, bytes));
}

}  // namespace

std::int32_t Memory::allocate(bool of_nccl, std::uint64_t bytes, cudaStream_t stream, void** memory, Status* status) {
  Piece piece;
  piece.bytes = std::max<std::uint64_t>(bytes, 1);
  piece.nccl = of_nccl;
  if (take(of_nccl, &piece.memory, piece.bytes, status) != CXXRUN_CUDA_OK) {
    return status->code;  // the other ranks register theirs: either all ranks register or none
  }
  pieces_.push_back(piece);
  *memory = piece.memory;
  return outcome(status, "cudaMemsetAsync", cudaMemsetAsync(piece.memory, 0, piece.bytes, stream));
}

std::int32_t Memory::register_last(ncclComm_t comm, Status* status) {
  auto& piece = pieces_.back();
#if CXXRUN_CUDA_HAS_WINDOWS
  if (has_windows()) {
    return outcome(status, "ncclCommWindowRegister",
                   ncclCommWindowRegister(comm, piece.memory, piece.bytes, &piece.window, NCCL_WIN_COLL_SYMMETRIC));
  }
#endif
  return outcome(status, "ncclCommRegister", ncclCommRegister(comm, piece.memory, piece.bytes, &piece.handle));
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
    if (outcome(status, "giving up registered memory", error) != CXXRUN_CUDA_OK) {
      return status->code;
    }
  }
  return fine(status);
}

// ---- the communicator

namespace {

std::int32_t aborted_error(Status* status) {
  return refused(status, ncclInvalidUsage, "the communicator was aborted");
}

}  // namespace

std::int32_t ready(Comm* comm, Status* status) {
  if (comm->aborted) {
    return aborted_error(status);
  }
  if (comm->connecting) {
    return refused(status, ncclInvalidUsage, "it is not connected yet: poll first");
  }
  return fine(status);
}

std::int32_t allocate(Comm* comm, std::uint64_t bytes, void** memory, Status* status) {
  if (comm->memory.allocate(comm->world > 1, bytes, comm->timeline.stream(), memory, status) != CXXRUN_CUDA_OK ||
      comm->world == 1) {
    return status->code;
  }
  InNccl const nccl(comm);
  return nccl.get() == nullptr ? aborted_error(status) : comm->memory.register_last(nccl.get(), status);
}

namespace {

static_assert(CXXRUN_CUDA_ID_BYTES == NCCL_UNIQUE_ID_BYTES);
static_assert(NCCL_VERSION_CODE >= kOldestNccl, "NCCL 2.19 or later is needed");

static_assert(NCCL_CONFIG_UNDEF_INT == INT_MIN);

void pass_on(Comm* comm, cxxrun_cuda_settings const& settings, ncclConfig_t& config) {
  config.minCTAs = settings.min_ctas;
  config.maxCTAs = settings.max_ctas;
  config.cgaClusterSize = settings.cga_cluster_size;
#if NCCL_VERSION_CODE >= 22602
  config.trafficClass = settings.traffic_class;
#endif
#if NCCL_VERSION_CODE >= 22703
  if (settings.name != nullptr) {
    comm->name = settings.name;
    config.commName = comm->name.c_str();
  }
#endif
}

void connect(Comm* comm, ncclUniqueId id, ncclConfig_t config) {
  OnDevice const here(comm->device);
  outcome(&comm->connected, "ncclCommInitRankConfig",
          ncclCommInitRankConfig(&comm->nccl, comm->world, id, comm->rank, &config));
  comm->connecting = false;
}

std::int32_t begin_nccl(Comm* comm, std::uint8_t const* id, cxxrun_cuda_settings const& settings, Status* status) {
  ncclUniqueId unique{};
  std::memcpy(&unique, id, sizeof(unique));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  pass_on(comm, settings, config);
  comm->connecting = true;
  try {
    comm->connector = os::start_quiet_thread([=] { connect(comm, unique, config); });
  } catch (std::exception const& failure) {
    comm->connecting = false;
    return refused(status, ncclSystemError, failure.what());
  }
  return fine(status);
}

std::int32_t unique_id(std::uint8_t* id, Status* status) {
  if (check_nccl(status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  ncclUniqueId unique{};
  if (outcome(status, "ncclGetUniqueId", ncclGetUniqueId(&unique)) == CXXRUN_CUDA_OK) {
    std::memcpy(id, &unique, sizeof(unique));
  }
  return status->code;
}

std::int32_t comm_begin(std::uint8_t const* id, std::int32_t rank, std::int32_t world,
                        cxxrun_cuda_settings const* settings, Comm** comm, Status* status) {
  *comm = nullptr;
  if (opened_device() < 0) {
    return refused(status, ncclInvalidUsage, "no device was opened before the communicator");
  }
  if (world < 1 || rank < 0 || rank >= world) {
    return refused(status, ncclInvalidArgument, "this rank is not one of this world");
  }
  if (world > 1 && check_nccl(status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  auto* const made = *comm = new Comm(opened_device());
  made->rank = rank;
  made->world = world;
  OnDevice const here(made->device);
  if (made->timeline.open(status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  if (outcome(status, "cudaMalloc",
              cudaMalloc(reinterpret_cast<void**>(&made->partial), kSquareBlocks * sizeof(double))) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  return world > 1 ? begin_nccl(made, id, *settings, status) : fine(status);
}

std::int32_t poll(Comm* comm, Status* status) {
  if (comm->aborted) {
    return aborted_error(status);
  }
  if (comm->connecting) {
    return in_progress(status);
  }
  if (comm->connected.code != CXXRUN_CUDA_OK) {
    *status = comm->connected;
    return status->code;
  }
  InNccl const nccl(comm);
  if (nccl.get() == nullptr) {
    return fine(status);
  }
  ncclResult_t state = ncclSuccess;
  auto const error = ncclCommGetAsyncError(nccl.get(), &state);
  return error != ncclSuccess ? failed(status, "ncclCommGetAsyncError", error) : outcome(status, "NCCL", state);
}

/// Also while NCCL is still connecting.
ncclComm_t nccl_so_far(Comm* comm) {
  return std::atomic_ref(comm->nccl).load();
}

/// Polls every millisecond until the condition is false.
template <class Condition>
void poll_while(Condition const& condition) {
  constexpr timespec kMillisecond{0, 1'000'000};
  while (condition()) {
    nanosleep(&kMillisecond, nullptr);
  }
}

/// Frees nothing while a thread is inside NCCL. Such a thread comes out within microseconds, or waits for a peer, or in
/// the driver for a kernel; the abort flag ends these waits.
void abort(Comm* comm) {
  if (comm->aborted.exchange(true)) {
    return;
  }
  OnDevice const here(comm->device);
  poll_while([comm] { return comm->connecting && nccl_so_far(comm) == nullptr; });
  if (ncclComm_t const nccl = nccl_so_far(comm); nccl != nullptr) {
    // Inside a group, ncclCommAbort sets its flags at once and does the rest at the end of the group.
    bool const grouped = loaded_nccl() >= nccl_version(2, 22, 3);
    if (grouped) {
      ncclGroupStart();
      ncclCommAbort(nccl);
    }
    int patience = grouped ? INT_MAX : 1000;  // without the flags a thread inside NCCL may wait forever
    poll_while([&] { return comm->connecting || (comm->in_nccl && --patience > 0); });
    comm->silent = !comm->in_nccl;
    grouped ? ncclGroupEnd() : ncclCommAbort(nccl);
  }
  comm->given_up = true;
}

std::int32_t drained(Comm* comm, Status* status) noexcept {
  if (!comm->silent && !comm->given_up) {
    return in_progress(status);
  }
  OnDevice const here(comm->device);
  bool const given_up = comm->given_up;  // then only other work is in front of what is queued here
  auto const code = comm->timeline.drained(status);
  return code == CXXRUN_CUDA_IN_PROGRESS && given_up ? fine(status) : code;
}

std::int32_t finalize(Comm* comm, Status* status) {
  OnDevice const here(comm->device);
  InNccl const nccl(comm);
  if (ready(comm, status) != CXXRUN_CUDA_OK || nccl.get() == nullptr) {
    return status->code;
  }
  if (comm->memory.deregister(nccl.get(), status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  if (outcome(status, "ncclCommFinalize", ncclCommFinalize(nccl.get())) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  return outcome(status, "ncclCommDestroy", ncclCommDestroy(std::exchange(comm->nccl, nullptr)));
}

void comm_free(Comm* comm) {
  if (comm == nullptr) {
    return;
  }
  abort(comm);  // does nothing if it was aborted or finalized before
  if (comm->connector.joinable()) {
    comm->connector.join();
  }
  OnDevice const here(comm->device);
  cudaStreamSynchronize(comm->timeline.stream());
  cudaFree(comm->partial);
  delete comm;
}

// ---- The table. No exception leaves it: only out of memory could throw, and that ends the process.

constexpr std::uint8_t kTypesInKernels = 4;  // f32, f64, f16, bf16
constexpr std::uint64_t kWidth[kTypesInKernels] = {4, 8, 2, 2};

/// Runs `body` on the communicator's device if something may be queued now.
template <class Body>
std::int32_t when_ready(Comm* comm, Status* status, Body const& body) {
  if (ready(comm, status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  OnDevice const here(comm->device);
  return body();
}

std::int32_t take_memory(Comm* comm, std::uint64_t bytes, void** memory, Status* status) noexcept {
  *memory = nullptr;
  return when_ready(comm, status, [&] { return allocate(comm, bytes, memory, status); });
}

std::int32_t after(Comm* comm, void* user_stream, Status* status) noexcept {
  return when_ready(comm, status, [&] { return comm->timeline.after(static_cast<cudaStream_t>(user_stream), status); });
}

std::int32_t multiply(Comm* comm, std::uint8_t type, void* data, std::uint64_t count, double factor,
                      Status* status) noexcept {
  if (type >= kTypesInKernels) {
    return unsupported(status, "only floating point numbers are multiplied");
  }
  return when_ready(comm, status, [&] {
    auto* const stream = comm->timeline.stream();
    return count == 0    ? fine(status)
           : factor == 0 ? outcome(status, "cudaMemsetAsync", cudaMemsetAsync(data, 0, count * kWidth[type], stream))
                         : outcome(status, "the kernel that multiplies",
                                   cxxrun_cuda_launch_multiply(type, data, count, factor, stream));
  });
}

std::int32_t add_squares(Comm* comm, std::uint8_t type, void const* data, std::uint64_t count, double* sum,
                         Status* status) noexcept {
  if (type >= kTypesInKernels) {
    return unsupported(status, "only floating point numbers are squared");
  }
  return when_ready(comm, status, [&] {
    return count == 0 ? fine(status)
                      : outcome(status, "the kernel that sums squares",
                                cxxrun_cuda_launch_add_squares(type, data, count, comm->partial, sum,
                                                               comm->timeline.stream()));
  });
}

std::int32_t copy(Comm* comm, void* to, void const* from, std::uint64_t bytes, Status* status) noexcept {
  return when_ready(comm, status, [&] { return comm->timeline.copy(to, from, bytes, status); });
}

std::int32_t mark(Comm* comm, std::uint64_t* point, Status* status) noexcept {
  return when_ready(comm, status, [&] { return comm->timeline.mark(point, status); });
}

std::int32_t reached(Comm* comm, std::uint64_t point, Status* status) noexcept {
  OnDevice const here(comm->device);
  if (comm->aborted) {
    comm->timeline.forget_deliveries();  // the owner of an aborted call may have freed its buffers
  }
  return comm->timeline.reached(point, status);
}

std::int32_t wait_on(Comm* comm, std::uint64_t point, void* user_stream, Status* status) noexcept {
  OnDevice const here(comm->device);
  return comm->timeline.wait_on(point, static_cast<cudaStream_t>(user_stream), status);
}

std::int32_t usable(Comm* comm, Status* status) noexcept {
  OnDevice const here(comm->device);
  return comm->timeline.drained(status) == CXXRUN_CUDA_IN_PROGRESS ? fine(status) : status->code;
}

constexpr cxxrun_cuda_api kApi{
    CXXRUN_CUDA_ABI, facts,      open_device, unique_id, comm_begin,  poll, abort, drained, finalize, comm_free,
    take_memory,     after,      enqueue,     multiply,  add_squares, copy, mark,  reached, wait_on,  is_device_memory,
    usable,          is_captured};

}  // namespace
}  // namespace cxxrun::cuda

// Has another name in C++, because the structure is already called cxxrun_cuda_api.
extern "C" CXXRUN_CUDA_SEAM cxxrun_cuda_api const* cxxrun_cuda_table(std::uint32_t abi) __asm__(CXXRUN_CUDA_SYMBOL);

cxxrun_cuda_api const* cxxrun_cuda_table(std::uint32_t abi) {
  return abi == CXXRUN_CUDA_ABI ? &cxxrun::cuda::kApi : nullptr;
}
