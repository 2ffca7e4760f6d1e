// The table. No exception leaves it: what could throw is memory running out, which ends the process.
#include "src/cuda/comm.hpp"
#include "src/cuda/device.hpp"
#include "src/cuda/kernels.hpp"

namespace cxxrun::cuda {
namespace {

constexpr std::uint8_t kTypesInKernels = 4;  // f32, f64, f16, bf16
constexpr std::uint64_t kWidth[kTypesInKernels] = {4, 8, 2, 2};

cudaStream_t stream_of(void* handle) {
  return static_cast<cudaStream_t>(handle);
}

/// `body` on the communicator's device, when something may be queued now.
template <class Body>
std::int32_t when_ready(Comm* comm, Status* status, Body const& body) {
  if (ready(comm, status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  OnDevice const here(comm->device);
  return body();
}

std::int32_t allocate(Comm* comm, std::uint64_t bytes, void** memory, Status* status) noexcept {
  *memory = nullptr;
  return when_ready(comm, status,
                    [&] { return comm->memory.allocate(comm->nccl, bytes, comm->timeline.stream(), memory, status); });
}

std::int32_t after(Comm* comm, void* user_stream, Status* status) noexcept {
  return when_ready(comm, status, [&] { return comm->timeline.after(stream_of(user_stream), status); });
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
    comm->timeline.forget_deliveries();  // who gave the call up may have given up its buffers too
  }
  return comm->timeline.reached(point, status);
}

std::int32_t wait_on(Comm* comm, std::uint64_t point, void* user_stream, Status* status) noexcept {
  OnDevice const here(comm->device);
  return comm->timeline.wait_on(point, stream_of(user_stream), status);
}

constexpr cxxrun_cuda_api kApi{
    CXXRUN_CUDA_ABI, facts,   open_device, unique_id,   comm_begin, poll, abort,   finalize, comm_free,       allocate,
    after,           enqueue, multiply,    add_squares, copy,       mark, reached, wait_on,  is_device_memory};

}  // namespace
}  // namespace cxxrun::cuda

// Under another name in here: the structure has this one.
extern "C" CXXRUN_CUDA_SEAM cxxrun_cuda_api const* cxxrun_cuda_table(std::uint32_t abi) __asm__(CXXRUN_CUDA_SYMBOL);

cxxrun_cuda_api const* cxxrun_cuda_table(std::uint32_t abi) {
  return abi == CXXRUN_CUDA_ABI ? &cxxrun::cuda::kApi : nullptr;
}
