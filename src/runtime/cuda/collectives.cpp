#include <algorithm>
#include <cmath>

#include "src/runtime/cuda/comm.hpp"
#include "src/runtime/cuda/device.hpp"
#include "src/runtime/cuda/device_kernels.hpp"

namespace cxxrun::cuda {
namespace {

/// Numbers as in src/base/core/call.hpp and include/cxxrun/dtype.hpp.
enum Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, barrier };
constexpr std::uint8_t kF32 = 0;
constexpr std::uint8_t kF16 = 2;
constexpr std::uint8_t kBf16Wire = 1;
constexpr std::uint8_t kF16Wire = 2;
constexpr std::uint8_t kSum = 0;
constexpr std::uint8_t kFirstInteger = 4;

struct Type {
  ncclDataType_t nccl;
  std::uint64_t bytes;
};
constexpr Type kTypes[] = {{ncclFloat32, 4}, {ncclFloat64, 8}, {ncclFloat16, 2}, {ncclBfloat16, 2},
                           {ncclInt32, 4},   {ncclInt64, 8},   {ncclUint8, 1}};
constexpr ncclRedOp_t kOps[] = {ncclSum, ncclMin, ncclMax};

constexpr std::uint64_t kScratchStep = 2U << 20U;

Type type_of(cxxrun_cuda_call const& call) {
  return kTypes[call.type];
}
bool reduces(cxxrun_cuda_call const& call) {
  return call.kind == all_reduce || call.kind == reduce_scatter;
}
/// Only sums of f32 are encoded for the wire.
bool encoded(cxxrun_cuda_call const& call) {
  return reduces(call) && call.wire != 0 && call.type == kF32 && call.op == kSum;
}
/// The factor for the elements of a sum in f16 before the call: NCCL rounds sums to f16 on the way or at the end, and
/// one above 65504 becomes infinite even if its mean is small. The factor is a power of two, so only subnormal results
/// are rounded, and no smaller than the scale or the number of ranks requires.
float scale_before(Comm const& comm, cxxrun_cuda_call const& call) {
  bool const narrow = call.type == kF16 || (encoded(call) && call.wire == kF16Wire);
  float before = 1;
  for (std::int64_t ranks = 1; ranks < comm.world && before > std::abs(call.scale); ranks *= 2) {
    before /= 2;
  }
  return reduces(call) && call.op == kSum && narrow ? before : 1;
}
/// The factor that remains for the result.
float scale_after(Comm const& comm, cxxrun_cuda_call const& call) {
  return reduces(call) && call.type < kFirstInteger ? call.scale / scale_before(comm, call) : 1;
}
/// Whether NCCL reads the input from the scratch memory. The input of a reduce_scatter must not be changed.
bool staged(Comm const& comm, cxxrun_cuda_call const& call) {
  return encoded(call) || (call.kind == reduce_scatter && scale_before(comm, call) != 1);
}
/// Elements of the whole input.
std::uint64_t in_count(cxxrun_cuda_call const& call, int world) {
  bool const all = call.kind == reduce_scatter || call.kind == all_to_all;
  return call.count * (all ? static_cast<std::uint64_t>(world) : 1);
}

std::byte* at(void* memory, std::uint64_t bytes) {
  return static_cast<std::byte*>(memory) + bytes;
}
std::byte const* at(void const* memory, std::uint64_t bytes) {
  return static_cast<std::byte const*>(memory) + bytes;
}

/// A result of CUDA or of NCCL.
struct Done {
  cudaError_t cuda = cudaSuccess;
  ncclResult_t nccl = ncclSuccess;
  char const* call = "";
};

Done by_nccl(char const* call, ncclResult_t result) {
  return {cudaSuccess, result, call};
}
Done copied(void* to, void const* from, std::uint64_t bytes, cudaStream_t stream) {
  return {cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), ncclSuccess, "cudaMemcpyAsync"};
}

/// Bytes of scratch memory that this call needs; the same on every rank.
std::uint64_t scratch_wanted(Comm const& comm, cxxrun_cuda_call const& call) {
  if (staged(comm, call)) {
    return in_count(call, comm.world) * 2;
  }
  return call.kind == barrier ? sizeof(std::int32_t) : 0;
}

/// Whether the call is in place at the front of the buffer. NCCL only supports in place at the rank's own part of the
/// buffer, which is the front on rank 0 only.
bool from_the_front(Comm const& comm, cxxrun_cuda_call const& call) {
  return comm.rank != 0 && call.in == call.out && (call.kind == reduce_scatter || call.kind == all_gather) &&
         !staged(comm, call);
}
/// Offset of this rank's own part in the buffer or in the scratch memory.
std::uint64_t own_offset(Comm const& comm, cxxrun_cuda_call const& call) {
  return static_cast<std::uint64_t>(comm.rank) * call.count * (staged(comm, call) ? 2 : type_of(call).bytes);
}

/// At least doubles, because earlier memory stays allocated until the communicator is freed.
std::uint64_t more_than(std::uint64_t before, std::uint64_t wanted) {
  return std::max((wanted + kScratchStep - 1) / kScratchStep * kScratchStep, before * 2);
}

/// Saves this rank's own part of the input, because a reduction in place leaves its result there. Later
/// move_to_the_front() moves the result to the front and restores the part.
Done set_own_part_aside(Comm* comm, cxxrun_cuda_call const& call) {
  auto const bytes = call.count * type_of(call).bytes;
  if (bytes > comm->spare_bytes) {
    auto const wanted = more_than(comm->spare_bytes, bytes);
    Status status;
    if (comm->memory.allocate(false, wanted, comm->timeline.stream(), &comm->spare, &status) != CXXRUN_CUDA_OK) {
      return {static_cast<cudaError_t>(status.detail), ncclSuccess, "more memory"};
    }
    comm->spare_bytes = wanted;
  }
  return copied(comm->spare, at(call.in, own_offset(*comm, call)), bytes, comm->timeline.stream());
}
Done move_to_the_front(Comm* comm, cxxrun_cuda_call const& call) {
  auto const bytes = call.count * type_of(call).bytes;
  auto* const own = at(call.out, own_offset(*comm, call));
  auto const done = copied(call.out, own, bytes, comm->timeline.stream());
  return done.cuda != cudaSuccess ? done : copied(own, comm->spare, bytes, comm->timeline.stream());
}

/// Prepares the input.
Done before(Comm* comm, cxxrun_cuda_call const& call) {
  auto* const stream = comm->timeline.stream();
  auto const scale = scale_before(*comm, call);
  if (encoded(call)) {
    return {cxxrun_cuda_launch_encode(call.wire, static_cast<float const*>(call.in), comm->scratch,
                                      in_count(call, comm->world), scale, stream),
            ncclSuccess, "the kernel that encodes"};
  }
  if (scale != 1) {
    return {cxxrun_cuda_launch_scale(call.type, call.in, staged(*comm, call) ? comm->scratch : call.out,
                                     in_count(call, comm->world), scale, stream),
            ncclSuccess, "the kernel that scales"};
  }
  if (call.kind == reduce_scatter && from_the_front(*comm, call)) {
    return set_own_part_aside(comm, call);
  }
  if (call.kind == all_gather && from_the_front(*comm, call)) {
    return copied(at(call.out, own_offset(*comm, call)), call.in, call.count * type_of(call).bytes, stream);
  }
  return {};
}

ncclResult_t exchange_all(Comm* comm, cxxrun_cuda_call const& call, ncclComm_t nccl) {
  auto* const stream = comm->timeline.stream();
  auto const bytes = call.count * type_of(call).bytes;
  auto result = ncclGroupStart();
  for (int peer = 0; peer < comm->world && result == ncclSuccess; ++peer) {
    auto const offset = static_cast<std::uint64_t>(peer) * bytes;
    result = ncclSend(at(call.in, offset), bytes, ncclUint8, peer, nccl, stream);
    if (result == ncclSuccess) {
      result = ncclRecv(at(call.out, offset), bytes, ncclUint8, peer, nccl, stream);
    }
  }
  auto const end = ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

Done launch(Comm* comm, cxxrun_cuda_call const& call, ncclComm_t nccl) {
  auto* const stream = comm->timeline.stream();
  bool const half = encoded(call);  // then in and out are the scratch memory, and the operation is a sum
  auto const type = !half ? type_of(call).nccl : call.wire == kBf16Wire ? ncclBfloat16 : ncclFloat16;
  auto const op = kOps[call.op];
  void const* const in = staged(*comm, call) ? comm->scratch : scale_before(*comm, call) != 1 ? call.out : call.in;
  void* const out = half ? comm->scratch : call.out;
  bool const front = from_the_front(*comm, call);
  auto* const own = at(out, own_offset(*comm, call));
  switch (call.kind) {
    case all_reduce: return by_nccl("ncclAllReduce", ncclAllReduce(in, out, call.count, type, op, nccl, stream));
    case reduce_scatter:
      return by_nccl("ncclReduceScatter",
                     ncclReduceScatter(in, front || half ? own : out, call.count, type, op, nccl, stream));
    case all_gather:
      return by_nccl("ncclAllGather", ncclAllGather(front ? own : call.in, call.out, call.count, type, nccl, stream));
    case broadcast:
      return by_nccl("ncclBroadcast", ncclBroadcast(call.out, call.out, call.count, type, call.root, nccl, stream));
    case all_to_all: return by_nccl("ncclSend and ncclRecv", exchange_all(comm, call, nccl));
    default:
      return by_nccl("ncclAllReduce", ncclAllReduce(comm->scratch, comm->scratch, 1, ncclInt32, ncclSum, nccl, stream));
  }
}

Done collective(Comm* comm, cxxrun_cuda_call const& call) {
  InNccl const nccl(comm);
  if (nccl.get() == nullptr) {
    return by_nccl("a call that was aborted", ncclInvalidUsage);
  }
  return launch(comm, call, nccl.get());
}

/// Finishes the result. In a world of one it was copied before if necessary.
Done after(Comm* comm, cxxrun_cuda_call const& call) {
  auto* const stream = comm->timeline.stream();
  if (encoded(call) && comm->world > 1) {
    auto const offset = call.kind == reduce_scatter ? own_offset(*comm, call) : 0;
    return {cxxrun_cuda_launch_decode(call.wire, at(comm->scratch, offset), static_cast<float*>(call.out), call.count,
                                      scale_after(*comm, call), stream),
            ncclSuccess, "the kernel that decodes"};
  }
  Done done;
  if (call.kind == reduce_scatter && from_the_front(*comm, call)) {
    done = move_to_the_front(comm, call);
  }
  if (auto const scale = scale_after(*comm, call); done.cuda == cudaSuccess && scale != 1) {
    done = {cxxrun_cuda_launch_scale(call.type, call.out, call.out, call.count, scale, stream), ncclSuccess,
            "the kernel that scales"};
  }
  return done;
}

/// The reason why NCCL cannot do it, or null.
char const* obstacle(cxxrun_cuda_call const& call) {
  if (call.kind > barrier || call.type >= std::size(kTypes) || call.op >= std::size(kOps) || call.wire > 2) {
    return "no such collective";
  }
  if (reduces(call) && call.op != kSum && call.type < kFirstInteger) {
    return "min and max of floating point numbers would lose the NaNs of some ranks in NCCL";
  }
  return nullptr;
}

std::int32_t alone(Comm* comm, cxxrun_cuda_call const& call, Status* status) {
  if (call.kind == barrier) {
    return fine(status);
  }
  auto* const stream = comm->timeline.stream();
  if (call.in != call.out && call.kind != broadcast) {
    auto const copy = copied(call.out, call.in, call.count * type_of(call).bytes, stream);
    if (outcome(status, copy.call, copy.cuda) != CXXRUN_CUDA_OK) {
      return status->code;
    }
  }
  auto const done = after(comm, call);
  return outcome(status, done.call, done.cuda);
}

}  // namespace

std::int32_t enqueue(Comm* comm, cxxrun_cuda_call const* call, Status* status) {
  if (auto const* const reason = obstacle(*call); reason != nullptr) {
    return unsupported(status, reason);
  }
  if (ready(comm, status) != CXXRUN_CUDA_OK || (call->count == 0 && call->kind != barrier)) {
    return status->code;
  }
  OnDevice const here(comm->device);
  if (comm->world == 1) {
    return alone(comm, *call, status);
  }
  if (auto const wanted = scratch_wanted(*comm, *call); wanted > comm->scratch_bytes) {
    auto const bytes = more_than(comm->scratch_bytes, wanted);
    if (allocate(comm, bytes, &comm->scratch, status) != CXXRUN_CUDA_OK) {
      return status->code;
    }
    comm->scratch_bytes = bytes;
  }
  for (auto* const step : {before, collective, after}) {
    auto const done = step(comm, *call);
    if (done.cuda != cudaSuccess) {
      return failed(status, done.call, done.cuda);
    }
    if (done.nccl != ncclSuccess) {
      return failed(status, done.call, done.nccl);
    }
  }
  return fine(status);
}

}  // namespace cxxrun::cuda
