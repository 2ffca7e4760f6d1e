#include "src/runtime/cuda/timeline.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

namespace cxxrun::cuda {
namespace {

constexpr std::size_t kFirstEvents = 64;
constexpr std::uint64_t kSmallestBlock = 64U << 10U;

cudaError_t make_event(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDisableTiming);
}

/// cudaErrorNotReady is not an error, but stays as the thread's last error: clears it.
cudaError_t clear_not_ready(cudaError_t error) {
  if (error == cudaErrorNotReady && cudaPeekAtLastError() == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
  }
  return error;
}

std::int32_t refuse_capture(cudaStream_t stream, Status* status) {
  auto const captured = is_captured(stream, status);
  return captured == 0 ? fine(status)
         : captured < 0
             ? status->code
             : unsupported(status, "it is being captured into a CUDA graph, which collectives do not support");
}

}  // namespace

Timeline::~Timeline() {
  for (auto const event : ring_) {
    cudaEventDestroy(event);
  }
  if (entry_ != nullptr) {
    cudaEventDestroy(entry_);
  }
  if (stream_ != nullptr) {
    cudaStreamDestroy(stream_);
  }
  for (auto const& block : blocks_) {
    cudaFreeHost(block.memory);
  }
}

std::int32_t Timeline::open(Status* status) {
  int least = 0;
  int greatest = 0;
  if (auto const error = cudaDeviceGetStreamPriorityRange(&least, &greatest); error != cudaSuccess) {
    return failed(status, "cudaDeviceGetStreamPriorityRange", error);
  }
  if (auto const error = cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest);
      error != cudaSuccess) {
    return failed(status, "cudaStreamCreateWithPriority", error);
  }
  auto error = make_event(&entry_);
  if (error == cudaSuccess) {
    error = grow();
  }
  return outcome(status, "cudaEventCreateWithFlags", error);
}

std::int32_t Timeline::after(cudaStream_t user_stream, Status* status) {
  if (refuse_capture(user_stream, status) != CXXRUN_CUDA_OK) {
    return status->code;
  }
  // One event is enough: a wait refers to the state of the event when the wait was queued.
  if (auto const error = cudaEventRecord(entry_, user_stream); error != cudaSuccess) {
    return failed(status, "cudaEventRecord", error);
  }
  return outcome(status, "cudaStreamWaitEvent", cudaStreamWaitEvent(stream_, entry_, 0));
}

/// Doubles the number of events; those in use keep their points.
cudaError_t Timeline::grow() {
  std::size_t const size = ring_.empty() ? kFirstEvents : ring_.size() * 2;
  std::vector<cudaEvent_t> larger(size, nullptr);
  for (std::uint64_t point = reached_ + 1; point <= last_; ++point) {
    larger[point % size] = event_of(point);
  }
  std::vector<cudaEvent_t> made;
  for (std::size_t missing = size - (last_ - reached_); missing > 0; --missing) {
    cudaEvent_t event = nullptr;
    if (auto const error = make_event(&event); error != cudaSuccess) {
      for (auto const one : made) {
        cudaEventDestroy(one);
      }
      return error;
    }
    made.push_back(event);
  }
  for (auto& event : larger) {
    if (event == nullptr) {
      event = made.back();
      made.pop_back();
    }
  }
  // Only a full ring (or an empty one) grows, so every event of the old ring is in the new one.
  ring_ = std::move(larger);
  return cudaSuccess;
}

/// Finds out which points up to `up_to` have been reached.
cudaError_t Timeline::progress(std::uint64_t up_to) {
  while (reached_ < up_to) {
    if (auto const error = clear_not_ready(cudaEventQuery(event_of(reached_ + 1))); error != cudaSuccess) {
      return error;
    }
    ++reached_;
  }
  return cudaSuccess;
}

std::int32_t Timeline::mark(std::uint64_t* point, Status* status) {
  assert(last_ - reached_ <= ring_.size());  // every point in progress has an event
  if (last_ - reached_ == ring_.size()) {
    auto error = progress(reached_ + 1);
    if (error == cudaErrorNotReady) {
      error = grow();
    }
    if (error != cudaSuccess) {
      return failed(status, "a point in the stream", error);
    }
  }
  if (auto const error = cudaEventRecord(event_of(last_ + 1), stream_); error != cudaSuccess) {
    return failed(status, "cudaEventRecord", error);
  }
  *point = ++last_;
  return fine(status);
}

void Timeline::deliver() {
  std::size_t done = 0;
  for (; done < deliveries_.size() && deliveries_[done].point <= reached_; ++done) {
    std::memcpy(deliveries_[done].to, deliveries_[done].from, deliveries_[done].bytes);
  }
  deliveries_.erase(deliveries_.begin(), deliveries_.begin() + static_cast<std::ptrdiff_t>(done));
}

std::int32_t Timeline::reached(std::uint64_t point, Status* status) {
  if (point > last_) {
    return refused(status, ncclInvalidArgument, "there is no such point in the stream yet");
  }
  auto const error = progress(point);
  if (error == cudaErrorNotReady) {
    return in_progress(status);
  }
  if (error != cudaSuccess) {
    return failed(status, "something queued before", error);
  }
  deliver();
  return fine(status);
}

std::int32_t Timeline::drained(Status* status) const {
  auto const error = clear_not_ready(cudaStreamQuery(stream_));
  return error == cudaErrorNotReady ? in_progress(status) : outcome(status, "the device", error);
}

std::int32_t Timeline::wait_on(std::uint64_t point, cudaStream_t user_stream, Status* status) {
  if (point > last_) {
    return refused(status, ncclInvalidArgument, "there is no such point in the stream yet");
  }
  if (refuse_capture(user_stream, status) != CXXRUN_CUDA_OK || point <= reached_) {
    return status->code;
  }
  return outcome(status, "cudaStreamWaitEvent", cudaStreamWaitEvent(user_stream, event_of(point), 0));
}

/// Finds or allocates a free block of at least `bytes`; it is taken until the next mark() is reached.
std::int32_t Timeline::take_block(std::uint64_t bytes, void** memory, Status* status) {
  static_cast<void>(progress(last_));  // an error is reported by reached()
  deliver();
  auto best = blocks_.end();
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->busy_until <= reached_ && block->bytes >= bytes &&
        (best == blocks_.end() || block->bytes < best->bytes)) {
      best = block;
    }
  }
  if (best == blocks_.end()) {
    Block block;
    block.bytes = std::bit_ceil(std::max(bytes, kSmallestBlock));
    if (auto const error = cudaHostAlloc(&block.memory, block.bytes, cudaHostAllocDefault); error != cudaSuccess) {
      return failed(status, "cudaHostAlloc", error);
    }
    best = blocks_.insert(blocks_.end(), block);
  }
  best->busy_until = last_ + 1;
  *memory = best->memory;
  return fine(status);
}

std::int32_t Timeline::copy(void* to, void const* from, std::uint64_t bytes, Status* status) {
  if (bytes == 0 || to == from) {
    return fine(status);
  }
  auto const to_kind = is_device_memory(to, status);
  auto const from_kind = to_kind < 0 ? -1 : is_device_memory(from, status);
  if (from_kind < 0) {
    return status->code;
  }
  bool const to_host = to_kind == 0;
  bool const from_host = from_kind == 0;
  if (to_host && from_host) {
    return refused(status, ncclInvalidArgument, "neither end of this copy is memory of a device");
  }
  void* pinned = nullptr;
  if (to_host || from_host) {
    if (take_block(bytes, &pinned, status) != CXXRUN_CUDA_OK) {
      return status->code;
    }
  }
  if (from_host) {
    std::memcpy(pinned, from, bytes);
  }
  auto const error =
      cudaMemcpyAsync(to_host ? pinned : to, from_host ? pinned : from, bytes, cudaMemcpyDefault, stream_);
  if (error != cudaSuccess) {
    return failed(status, "cudaMemcpyAsync", error);
  }
  if (to_host) {
    deliveries_.push_back({last_ + 1, to, pinned, bytes});
  }
  return fine(status);
}

}  // namespace cxxrun::cuda
