#include "tests/support/cuda_double/stream.hpp"

#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "tests/support/cuda_double/script.hpp"

namespace cxxrun::cuda_double {
namespace {

std::atomic<int> g_sticky{0};
thread_local cudaError_t t_last = cudaSuccess;  // NOLINT(readability-identifier-naming)

}  // namespace

namespace {

struct Queues {
  std::mutex mutex;
  std::vector<std::weak_ptr<Queue>> all;
};
Queues& queues() {
  static auto& all = *new Queues;
  return all;
}

}  // namespace

std::vector<std::shared_ptr<Queue>> all_queues() {
  std::lock_guard const lock(queues().mutex);
  std::vector<std::shared_ptr<Queue>> alive;
  for (auto const& queue : queues().all) {
    if (auto one = queue.lock()) {
      alive.push_back(std::move(one));
    }
  }
  return alive;
}

std::shared_ptr<Queue> Queue::start() {
  auto queue = std::make_shared<Queue>();
  {
    std::lock_guard const lock(queues().mutex);
    std::erase_if(queues().all, [](auto const& old) { return old.expired(); });
    queues().all.push_back(queue);
  }
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

namespace {

/// Of one stream, which has to begin and end it.
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool broken = false;
};
struct Captures {
  std::mutex mutex;
  std::map<cudaStream_t, Capture> of;
};
Captures& captures() {
  static auto& all = *new Captures;
  return all;
}
thread_local auto t_mode = cudaStreamCaptureModeGlobal;  // NOLINT(readability-identifier-naming)

bool is_captured(cudaStream_t stream) {
  std::lock_guard const lock(captures().mutex);
  return captures().of.contains(stream);
}

}  // namespace

cudaError_t unsafe() {
  std::lock_guard const lock(captures().mutex);
  auto error = cudaSuccess;
  for (auto& [stream, capture] : captures().of) {
    bool const own = capture.thread == std::this_thread::get_id() && capture.mode != cudaStreamCaptureModeRelaxed;
    bool const global = t_mode == cudaStreamCaptureModeGlobal && capture.mode == cudaStreamCaptureModeGlobal;
    if (t_mode != cudaStreamCaptureModeRelaxed && (own || global)) {
      capture.broken = true;
      error = cudaErrorStreamCaptureUnsupported;
    }
  }
  return error == cudaSuccess ? state() : error;
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
  need_context();
  pass_driver();
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

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  std::lock_guard const lock(captures().mutex);
  captures().of[stream] = {mode, std::this_thread::get_id()};
  return answer(state());
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  std::lock_guard const lock(captures().mutex);
  auto const node = captures().of.extract(stream);
  *graph = nullptr;
  return answer(node.empty() || node.mapped().broken ? cudaErrorStreamCaptureInvalidated : state());
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  need_context();
  *status = is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return answer(state());
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, t_mode);
  return answer(state());
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (auto const error = unsafe(); error == cudaErrorStreamCaptureUnsupported) {
    return answer(error);
  }
  auto const queue = queue_of(stream);
  queue->wait(queue->last());
  return answer(state());
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  pass_driver();
  auto const queue = queue_of(stream);
  auto const done = queue->done(queue->last()) ? cudaSuccess : cudaErrorNotReady;
  auto const error = unsafe();
  return answer(error != cudaSuccess ? error : done);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  count("cudaEventCreate");
  need_context();
  pass_driver();
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
  pass_driver();
  auto const when = std::make_shared<std::chrono::steady_clock::time_point>();
  event->captured = is_captured(stream);
  if (event->captured) {
    event->queue = nullptr;
    return answer(state());
  }
  event->queue = queue_of(stream);
  event->when = when;
  event->ticket = event->queue->push([when] { *when = std::chrono::steady_clock::now(); });
  return answer(state());
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  pass_driver();
  bool const done = event->queue == nullptr || event->queue->done(event->ticket);
  if (auto const error = event->captured ? cudaErrorCapturedEvent : unsafe(); error != cudaSuccess) {
    return answer(error);
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
  pass_driver();
  if (event->captured != is_captured(stream)) {
    return answer(cudaErrorStreamCaptureIsolation);
  }
  if (event->queue != nullptr) {
    // What the event stands for now: it may be recorded again before the stream comes to it.
    queue_of(stream)->push([other = event->queue, ticket = event->ticket] { other->wait(ticket); });
  }
  return answer(state());
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  pass_driver();
  queue_of(stream)->push([function, data] { function(data); });
  return answer(state());
}

}  // extern "C"
