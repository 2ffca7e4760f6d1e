// Scratch: memory of one owner that calls fill anew.
#pragma once

#include <cstddef>
#include <memory>

namespace cxxrun::host {

/// Kept from call to call; it only grows, and what was in it is gone then.
class Scratch {
 public:
  std::byte* at_least(std::size_t bytes) {
    if (bytes > size_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      size_ = bytes;
    }
    return memory_.get();
  }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

}  // namespace cxxrun::host
