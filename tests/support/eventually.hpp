// Waiting for what other threads and processes do.
#pragma once

#include <chrono>
#include <thread>

namespace cxxrun::test {

/// Until it is so; a limit against hanging only. It sleeps between two looks: the CPU is for those that it waits for.
template <class Condition>
bool eventually(Condition const& condition) {
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

}  // namespace cxxrun::test
