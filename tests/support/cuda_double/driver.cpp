// The driver's lock, with driver=locks: one call that waits for the device keeps all others waiting.
#include <algorithm>
#include <mutex>
#include <set>

#include "tests/support/cuda_double/script.hpp"
#include "tests/support/cuda_double/stream.hpp"

namespace cxxrun::cuda_double {
namespace {

std::mutex& driver() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

std::unique_lock<std::mutex> taken() {
  std::unique_lock lock(driver(), std::try_to_lock);
  if (!lock) {
    count("driver waits");
    lock.lock();
  }
  return lock;
}

}  // namespace

void pass_driver() {
  if (script().driver_locks) {
    auto const lock = taken();
  }
}

void await_device() {
  if (!script().driver_locks) {
    return;
  }
  auto const lock = taken();
  auto const queues = all_queues();
  if (!std::all_of(queues.begin(), queues.end(), [](auto const& queue) { return queue->done(queue->last()); })) {
    count("driver waits");
  }
  for (auto const& queue : queues) {
    queue->wait(queue->last());
  }
}

void need_kernel(std::string const& name) {
  static auto& loaded = *new std::set<std::string>;
  static auto& mutex = *new std::mutex;
  bool first = false;
  {
    std::lock_guard const lock(mutex);
    first = loaded.insert(name).second;
  }
  if (first) {
    count("kernel loaded");
    await_device();
  } else {
    pass_driver();
  }
}

}  // namespace cxxrun::cuda_double
