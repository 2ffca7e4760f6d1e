// ReadyTracker: which gradients of a step are ready, and which bucket to launch next. Pure: values and atomics.
//
//   if (tracker.claim(i)) { …finish the gradient…; if (tracker.complete(i)) { tracker.launch_ready(launch); } }
//
// Buckets are launched strictly in order. The thread that completes a bucket launches all buckets that are due. If
// another thread is launching already, it leaves the work to that thread and returns: no thread waits.
//
// Threads: claim(), complete() and launch_ready() from any thread; the rest only while none of these runs.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "src/runtime/gradient/buckets.hpp"

namespace cxxrun::gradient {

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): cache lines of their own
class ReadyTracker {
 public:
  explicit ReadyTracker(std::size_t parameters)
      : marks_(new std::atomic<std::uint32_t>[parameters] {}), bucket_of_(parameters), seen_(parameters) {}

  /// Sets the layout from the next begin_step() on. The only function that allocates.
  void use(Layout const& layout) {
    for (std::size_t i = 0; i < bucket_of_.size(); ++i) {
      bucket_of_[i] = layout.places[i].bucket;
    }
    buckets_ = layout.buckets.size();
    pending_.reset(new Pending[buckets_]);
    gradients_.clear();
    for (auto const& bucket : layout.buckets) {
      gradients_.push_back(bucket.gradients);
    }
  }
  void begin_step() {
    ++step_;
    next_ = 0;
    seen_count_.store(0, std::memory_order_relaxed);
    for (std::size_t b = 0; b < buckets_; ++b) {
      pending_[b].count.store(gradients_[b], std::memory_order_relaxed);
    }
  }
  /// Whether to record the order of claims.
  void record(bool on) { recording_ = on; }

  /// Marks the parameter in this step. Returns false if it was marked before.
  bool claim(std::size_t parameter) {
    if (marks_[parameter].exchange(step_, std::memory_order_relaxed) == step_) {
      return false;
    }
    if (recording_) {
      seen_[seen_count_.fetch_add(1, std::memory_order_relaxed)] = static_cast<std::uint32_t>(parameter);
    }
    return true;
  }
  /// Call it once per successful claim, when the gradient may be read. True: it was the last gradient of its bucket.
  bool complete(std::size_t parameter) {
    return pending_[bucket_of_[parameter]].count.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  /// Calls launch(bucket) for every bucket that is due, one at a time and in order. `launch` must not throw.
  template <class Launch>
  void launch_ready(Launch&& launch) {
    if (requests_.fetch_add(1, std::memory_order_acq_rel) != 0) {
      return;  // the thread in here checks again before it leaves
    }
    std::uint32_t answered = 1;
    do {
      while (next_ < buckets_ && pending_[next_].count.load(std::memory_order_acquire) == 0) {
        launch(next_++);
      }
    } while (!requests_.compare_exchange_strong(answered, 0, std::memory_order_acq_rel));
  }

  [[nodiscard]] bool marked(std::size_t parameter) const {
    return marks_[parameter].load(std::memory_order_relaxed) == step_;
  }
  [[nodiscard]] bool all_launched() const { return next_ == buckets_; }
  /// The claims recorded in this step, in order.
  [[nodiscard]] std::span<std::uint32_t const> seen() const {
    return {seen_.data(), seen_count_.load(std::memory_order_relaxed)};
  }

 private:
  struct alignas(64) Pending {  // threads that complete different buckets do not share a cache line
    std::atomic<std::uint32_t> count{0};
  };

  std::unique_ptr<std::atomic<std::uint32_t>[]> marks_;  // by parameter: the last step that marked it
  std::vector<std::uint32_t> bucket_of_;
  std::vector<std::uint32_t> gradients_;  // by bucket
  std::unique_ptr<Pending[]> pending_;
  std::size_t buckets_ = 0;
  std::size_t next_ = 0;  // owned by the thread inside launch_ready()
  std::uint32_t step_ = 0;
  bool recording_ = false;
  std::vector<std::uint32_t> seen_;
  alignas(64) std::atomic<std::size_t> seen_count_{0};
  alignas(64) std::atomic<std::uint32_t> requests_{0};
};

}  // namespace cxxrun::gradient
