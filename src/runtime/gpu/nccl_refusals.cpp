// What a call on a device may not ask for, and whose memory its buffers are.
#include <algorithm>

#include "src/runtime/gpu/nccl_queue.hpp"

namespace cxxrun::gpu {

bool NcclQueue::is_device(void const* memory) {
  auto const holds = [at = reinterpret_cast<std::uintptr_t>(memory)](auto const& a) { return at - a.first < a.second; };
  if (std::any_of(arenas_.data(), arenas_.data() + arenas_used_, holds)) {
    return true;
  }
  require_own();
  cxxrun_cuda_status status{};
  std::int32_t const kind = memory == nullptr ? 0 : api_.is_device_memory(memory, &status);
  if (kind < 0) {
    fail(reason_of(status, "asking where a buffer lies"));
  }
  return kind != 0;
}

bool NcclQueue::is_captured(Stream stream) {
  require_own();
  cxxrun_cuda_status status{};
  std::int32_t const answer = api_.is_captured(stream.handle, &status);
  if (answer < 0) {
    fail(reason_of(status, "asking whether a stream is captured"));
  }
  return answer != 0;
}

std::optional<std::string> NcclQueue::refusal(comm::Call const& call) {
  if (comm::in_bytes(call, 1) == 0) {
    return std::nullopt;
  }
  bool const out = is_device(call.out);
  if ((out || call.stream.handle != nullptr) && is_captured(call.stream)) {
    return comm::describe(call) + ": its stream is being captured into a CUDA graph; collectives are not: end it first";
  }
  if (call.kind != comm::Kind::broadcast && call.in != call.out && is_device(call.in) != out) {
    return comm::describe(call) + ": one buffer is device memory and the other the host's; give it two of one kind";
  }
  if (out && comm::reduces(call.kind) && call.op != ReduceOp::sum && comm::is_floating(call.type)) {
    return comm::describe(call) + " of device memory: NCCL loses NaNs in it; copy the values to host memory";
  }
  return std::nullopt;
}

}  // namespace cxxrun::gpu
