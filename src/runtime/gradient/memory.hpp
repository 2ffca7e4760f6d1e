// Memory: the bytes that gradients live in, in host memory or on a device, and all that this rank does to them. On a
// device everything is queued, behind each other and before the all-reduces that are started later.
//
// Threads: after() and multiply() from any; the rest from one.
#pragma once

#include <algorithm>
#include <span>

#include "src/runtime/cpu/common/device_queue.hpp"
#include "src/runtime/gradient/buckets.hpp"

namespace cxxrun::gradient {

/// Elements of one type.
struct Piece {
  DType type = DType::f32;
  std::size_t offset = 0;  ///< in bytes
  std::size_t count = 0;
};

class Memory {
 public:
  /// Bytes behind the gradients that a device needs for itself.
  static constexpr std::size_t kScratch = 128;
  /// And behind those, to rearrange gradients of so many bytes in all.
  [[nodiscard]] static std::size_t room(std::size_t bytes) {
    constexpr std::size_t kMost = std::size_t{16} << 20U;
    return 2 * std::min(kMost, aligned(std::max<std::size_t>(bytes, 1)));
  }

  Memory() = default;
  /// `bytes` without scratch. `device`: null for host memory.
  Memory(std::byte* data, std::size_t bytes, host::DeviceQueue* device) : data_(data), bytes_(bytes), device_(device) {}

  [[nodiscard]] std::byte* at(std::size_t offset) const { return data_ + offset; }
  [[nodiscard]] bool on_device() const { return device_ != nullptr; }
  [[nodiscard]] host::DeviceQueue& device() const { return *device_; }

  /// On a device: what follows comes after what `stream` holds by now.
  void after(Stream stream) const {
    if (on_device()) {
      device_->after(stream);
    }
  }
  void multiply(Piece const& piece, double factor) const;
  /// Of a device: where queue_squares() leaves the sum.
  [[nodiscard]] double* squares() const { return reinterpret_cast<double*>(at(bytes_)); }
  void queue_squares(std::span<Piece const> pieces) const;
  /// Blocks until it is known.
  [[nodiscard]] double sum_of_squares(std::span<Piece const> pieces) const;
  /// Of a device: copies from host memory, which may change at once.
  void put(std::size_t offset, void const* from, std::size_t bytes) const { device_->copy(at(offset), from, bytes); }
  /// Of a device: copies to host memory; it is there when the point is reached.
  [[nodiscard]] std::uint64_t get(void* to, std::size_t offset, std::size_t bytes) const {
    device_->copy(to, at(offset), bytes);
    return device_->mark();
  }
  /// Moves every gradient to its place in another layout. Blocks. In host memory it takes as much again while it lasts;
  /// on a device nothing but room(), and nothing goes through the host.
  void rearrange(Layout const& from, Layout const& to) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  host::DeviceQueue* device_ = nullptr;
};

}  // namespace cxxrun::gradient
