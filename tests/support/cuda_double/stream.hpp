// Streams and events of the double.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace cxxrun::cuda_double {

/// Carries out what is queued, in order, on a thread of its own. A ticket is the number of something queued.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  static std::shared_ptr<Queue> start();
  std::uint64_t push(std::function<void()> work);
  /// Ends the thread when all is done.
  void close();
  [[nodiscard]] std::uint64_t last() const;
  [[nodiscard]] bool done(std::uint64_t ticket) const;
  void wait(std::uint64_t ticket) const;

 private:
  void run();
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::uint64_t queued_ = 0;
  std::uint64_t done_ = 0;
  bool closed_ = false;
};

/// Of a handle; null is the default stream.
std::shared_ptr<Queue> queue_of(cudaStream_t stream);

std::vector<std::shared_ptr<Queue>> all_queues();

/// What a call that needs a context does first: it makes one on the calling thread's device where there is none.
void need_context();
/// What a call of the driver's does first: it waits where another one holds the driver.
void pass_driver();
/// Holds the driver until all that has been queued on the device is done.
void await_device();
/// Its first launch loads it, which is a call of that kind.
void need_kernel(std::string const& name);

/// What a kernel that failed leaves behind: every later call of CUDA's answers it.
cudaError_t sticky_error();
void set_sticky_error(cudaError_t error);
/// The driver's error, else the sticky one.
cudaError_t state();
/// What a call that is unsafe beside a capture answers first: it ends the captures that forbid it to this thread.
cudaError_t unsafe();
/// Remembers it for cudaGetLastError().
cudaError_t answer(cudaError_t error);

}  // namespace cxxrun::cuda_double

struct CUstream_st {
  std::shared_ptr<cxxrun::cuda_double::Queue> queue = cxxrun::cuda_double::Queue::start();
};
struct CUevent_st {
  std::shared_ptr<cxxrun::cuda_double::Queue> queue;  ///< null: never recorded, or in a capture
  bool captured = false;
  std::uint64_t ticket = 0;
  std::shared_ptr<std::chrono::steady_clock::time_point> when;
};
