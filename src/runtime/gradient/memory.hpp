// Memory: the bytes of the gradients, on the host or on a device, and the local operations on them. On a device
// everything is queued, in order and before the all-reduces that start later.
//
// Threads: after() and multiply() from any thread; the rest from one.
#pragma once

#include <algorithm>
#include <span>

#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/gradient/buckets.hpp"

namespace cxxrun::gradient {

// Calculations in host memory; they allocate nothing.

/// data[i] *= factor, calculated in f64, for 16-bit types in f32. A factor of 0 gives zeros, whatever the data.
void multiply(DType type, void* data, std::size_t count, double factor);

/// Sum of data[i]² in f64, in a fixed order.
[[nodiscard]] double sum_of_squares(DType type, void const* data, std::size_t count);

/// A range of elements of one type.
struct Piece {
  DType type = DType::f32;
  std::size_t offset = 0;  ///< in bytes
  std::size_t count = 0;
};

class Memory {
 public:
  /// Extra bytes after the gradients for a device's own use.
  static constexpr std::size_t kScratch = 128;
  /// And bytes after those that rearranging `bytes` of gradients needs.
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

  /// On a device: later operations run after the work that `stream` holds now.
  void after(Stream stream) const {
    if (on_device()) {
      device_->after(stream);
    }
  }
  void multiply(Piece const& piece, double factor) const;
  /// On a device: where queue_squares() stores the sum.
  [[nodiscard]] double* squares() const { return reinterpret_cast<double*>(at(bytes_)); }
  void queue_squares(std::span<Piece const> pieces) const;
  /// Blocks until the sum is known.
  [[nodiscard]] double sum_of_squares(std::span<Piece const> pieces) const;
  /// On a device: copies from host memory, which may be changed at once.
  void put(std::size_t offset, void const* from, std::size_t bytes) const { device_->copy(at(offset), from, bytes); }
  /// On a device: copies to host memory; complete when the returned point is reached.
  [[nodiscard]] std::uint64_t get(void* to, std::size_t offset, std::size_t bytes) const {
    device_->copy(to, at(offset), bytes);
    return device_->mark();
  }
  /// Moves every gradient to its place in another layout. Blocks. In host memory it temporarily needs the same amount
  /// again; on a device only room(), and nothing goes through the host.
  void rearrange(Layout const& from, Layout const& to) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  host::DeviceQueue* device_ = nullptr;
};

}  // namespace cxxrun::gradient
