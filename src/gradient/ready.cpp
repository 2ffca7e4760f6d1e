#include "src/gradient/ready.hpp"

namespace cxxrun::gradient {

ReadyTracker::ReadyTracker(std::size_t parameters)
    : marks_(new std::atomic<std::uint32_t>[parameters] {}), bucket_of_(parameters), seen_(parameters) {}

void ReadyTracker::use(Layout const& layout) {
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

void ReadyTracker::begin_step() {
  ++step_;
  next_ = 0;
  seen_count_.store(0, std::memory_order_relaxed);
  for (std::size_t b = 0; b < buckets_; ++b) {
    pending_[b].count.store(gradients_[b], std::memory_order_relaxed);
  }
}

std::span<std::uint32_t const> ReadyTracker::seen() const {
  return {seen_.data(), seen_count_.load(std::memory_order_relaxed)};
}

}  // namespace cxxrun::gradient
