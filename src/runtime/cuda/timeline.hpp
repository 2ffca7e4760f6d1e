// A communicator's stream: points on it, and copies between host and device through pinned memory. Shell.
//
// Points are numbers from 1 on. A point has an event until it is known to be reached. The stream is ordered, so a
// reached point releases everything before it, and after a few steps nothing is allocated any more.
#pragma once

#include <vector>

#include <cuda_runtime_api.h>

#include "src/runtime/cuda/device.hpp"

namespace cxxrun::cuda {

class Timeline {
 public:
  Timeline() = default;
  Timeline(Timeline const&) = delete;
  Timeline& operator=(Timeline const&) = delete;
  ~Timeline();

  /// Creates the stream, with the highest priority, and independent of the legacy default stream.
  std::int32_t open(Status* status);
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  std::int32_t after(cudaStream_t user_stream, Status* status);
  std::int32_t mark(std::uint64_t* point, Status* status);
  std::int32_t reached(std::uint64_t point, Status* status);
  std::int32_t wait_on(std::uint64_t point, cudaStream_t user_stream, Status* status);
  /// IN_PROGRESS: something queued is not done. An error: the error of a failed kernel in any stream.
  std::int32_t drained(Status* status) const;
  std::int32_t copy(void* to, void const* from, std::uint64_t bytes, Status* status);
  /// Copies to host memory that are still in progress will not be written there.
  void forget_deliveries() { deliveries_.clear(); }

 private:
  /// Pinned memory; in use until its point is reached.
  struct Block {
    void* memory = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t busy_until = 0;
  };
  /// A copy to host memory: data that is in a block when the point is reached, and its destination.
  struct Delivery {
    std::uint64_t point;
    void* to;
    void const* from;
    std::uint64_t bytes;
  };

  [[nodiscard]] cudaEvent_t& event_of(std::uint64_t point) { return ring_[point % ring_.size()]; }
  cudaError_t progress(std::uint64_t up_to);
  cudaError_t grow();
  void deliver();
  std::int32_t take_block(std::uint64_t bytes, void** memory, Status* status);

  cudaStream_t stream_ = nullptr;
  cudaEvent_t entry_ = nullptr;    ///< records the state of user streams in after()
  std::vector<cudaEvent_t> ring_;  ///< the events of the points in (reached_, last_]
  std::uint64_t last_ = 0;
  std::uint64_t reached_ = 0;
  std::vector<Block> blocks_;
  std::vector<Delivery> deliveries_;  ///< in the order of points
};

}  // namespace cxxrun::cuda
