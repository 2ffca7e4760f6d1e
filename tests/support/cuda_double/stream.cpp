#include "tests/support/cuda_double/stream.hpp"

#include <atomic>
#include <thread>
#include <utility>

#include "tests/support/cuda_double/script.hpp"

namespace cxxrun::cuda_double {
namespace {

std::atomic<int> g_sticky{0};
thread_local cudaError_t t_last = cudaSuccess;  // NOLINT(readability-identifier-naming)

}  // namespace

std::shared_ptr<Queue> Queue::start() {
  auto queue = std::make_shared<Queue>();
  std::thread([queue] { queue->run(); }).detach();
  return queue;
}

std::uint64_t Queue::push(std::function<void()> work) {
  std::lock_guard const lock(mutex_);
  work_.push_back(std::move(work));
  changed_.notify_all();
  return ++queued_;
}

void Queue::close() {
  std::lock_guard const lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

std::uint64_t Queue::last() const {
  std::lock_guard const lock(mutex_);
  return queued_;
}

bool Queue::done(std::uint64_t ticket) const {
  std::lock_guard const lock(mutex_);
  return done_ >= ticket;
}

void Queue::wait(std::uint64_t ticket) const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= ticket; });
}

void Queue::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closed_ || !work_.empty(); });
    if (work_.empty()) {
      return;
    }
    auto const work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

std::shared_ptr<Queue> queue_of(cudaStream_t stream) {
  static auto& standard = *new CUstream_st;  // never destroyed: its thread runs to the end of the process
  return (stream == nullptr ? &standard : stream)->queue;
}

cudaError_t sticky_error() {
  return static_cast<cudaError_t>(g_sticky.load());
}
void set_sticky_error(cudaError_t error) {
  g_sticky = static_cast<int>(error);
}

cudaError_t state() {
  auto const driver = static_cast<cudaError_t>(script().driver_error);
  return driver != cudaSuccess ? driver : sticky_error();
}

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) {
    t_last = error;
  }
  return error;
}

}  // namespace cxxrun::cuda_double

using namespace cxxrun::cuda_double;  // NOLINT(google-build-using-namespace)

extern "C" {

void cxxrun_cuda_double_lose_context() {
  set_sticky_error(cudaErrorIllegalAddress);
}

cudaError_t cudaGetLastError() {
  return std::exchange(t_last, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return t_last;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return answer(state());
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned /*flags*/, int /*priority*/) {
  count("cudaStreamCreate");
  if (state() == cudaSuccess) {
    *stream = new CUstream_st;
  }
  return answer(state());
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->queue->close();
  delete stream;
  return answer(state());
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  auto const queue = queue_of(stream);
  queue->wait(queue->last());
  return answer(state());
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  auto const queue = queue_of(stream);
  auto const done = queue->done(queue->last()) ? cudaSuccess : cudaErrorNotReady;
  return answer(state() != cudaSuccess ? state() : done);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  count("cudaEventCreate");
  if (state() == cudaSuccess) {
    *event = new CUevent_st;
  }
  return answer(state());
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  count("cudaEventRecord");
  auto const when = std::make_shared<std::chrono::steady_clock::time_point>();
  event->queue = queue_of(stream);
  event->when = when;
  event->ticket = event->queue->push([when] { *when = std::chrono::steady_clock::now(); });
  return answer(state());
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  bool const done = event->queue == nullptr || event->queue->done(event->ticket);
  if (state() != cudaSuccess) {
    return answer(state());
  }
  return answer(done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->queue != nullptr) {
    event->queue->wait(event->ticket);
  }
  return answer(state());
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = std::chrono::duration<float, std::milli>(*to->when - *from->when).count();
  return answer(state());
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return answer(state());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  count("cudaStreamWaitEvent");
  if (event->queue != nullptr) {
    // What the event stands for now: it may be recorded again before the stream comes to it.
    queue_of(stream)->push([other = event->queue, ticket = event->ticket] { other->wait(ticket); });
  }
  return answer(state());
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  queue_of(stream)->push([function, data] { function(data); });
  return answer(state());
}

}  // extern "C"
