// Memory of a CUDA device, told from the host's by the driver, in a process that has loaded it; libcxxrun links no
// CUDA. Shell.
//
// The host backend would read it like any other memory and end with a segmentation fault, far from what is wrong. Most
// questions are of pages that were the host's a moment ago: those are answered from a table, in nanoseconds.
// Such a page may become a device's only after it was given back to the system; if that goes unnoticed, things are as
// bad as without the question.
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

  /// False for managed memory, which the host reads too, and without a driver.
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

  /// Of this process.
  [[nodiscard]] static DeviceMemory& own() noexcept;

 private:
  static constexpr std::uintptr_t kPage = 4096;
  static constexpr std::size_t kKnown = 256;
  /// cuPointerGetAttributes, without its types.
  using Driver = int (*)(unsigned, int*, void**, std::uintptr_t);

  [[nodiscard]] bool ask(void const* memory) noexcept;
  [[nodiscard]] Driver driver() noexcept;

  std::array<std::atomic<std::uintptr_t>, kKnown> hosts_{};  ///< pages that were the host's; 0 is no page
  std::atomic<Driver> driver_{nullptr};
  std::atomic<unsigned long long> loaded_{0};  ///< libraries when it was last looked for
};

/// Why the host backend cannot carry out the call, or nothing.
[[nodiscard]] std::optional<std::string> out_of_reach(comm::Call const& call);

}  // namespace cxxrun::client
