// DeviceMemory: asks the CUDA driver whether an address is device memory, if this process has loaded the driver.
// libcxxrun itself does not link CUDA. Shell.
//
// The host backend would access device memory like any other and end in a segmentation fault, far from the mistake.
// Most questions are about pages that were host memory a moment ago; a cache answers those in nanoseconds. Such a page
// can only become device memory after it was returned to the system. If that goes unnoticed, the result is as bad as
// without the check.
//
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/core/call.hpp"

namespace cxxrun::client {

class DeviceMemory {
 public:
  constexpr DeviceMemory() = default;
  DeviceMemory(DeviceMemory const&) = delete;
  DeviceMemory& operator=(DeviceMemory const&) = delete;
  ~DeviceMemory() = default;

  /// False for managed memory, which the host can read, and false without a driver.
  [[nodiscard]] bool holds(void const* memory) noexcept {
    std::uintptr_t const page = reinterpret_cast<std::uintptr_t>(memory) / kPage;
    auto& known = hosts_[page % kKnown];
    if (known.load(std::memory_order_relaxed) == page) {
      return false;
    }
    if (ask(memory)) {
      return true;
    }
    known.store(page, std::memory_order_relaxed);
    return false;
  }

  /// The instance of this process.
  [[nodiscard]] static DeviceMemory& own() noexcept;

 private:
  static constexpr std::uintptr_t kPage = 4096;
  static constexpr std::size_t kKnown = 256;
  /// cuPointerGetAttributes, without CUDA's types.
  using Driver = int (*)(unsigned, int*, void**, std::uintptr_t);

  [[nodiscard]] bool ask(void const* memory) noexcept;
  [[nodiscard]] Driver driver() noexcept;

  std::array<std::atomic<std::uintptr_t>, kKnown> hosts_{};  ///< pages known to be host memory; 0 is not a page
  std::atomic<Driver> driver_{nullptr};
  std::atomic<unsigned long long> loaded_{0};  ///< number of libraries when the driver was last looked for
};

/// Why the host backend cannot run the call, or nothing.
[[nodiscard]] std::optional<std::string> out_of_reach(comm::Call const& call);

}  // namespace cxxrun::client
