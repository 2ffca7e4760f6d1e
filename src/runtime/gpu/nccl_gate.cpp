#include "src/runtime/gpu/nccl_gate.hpp"

#include <atomic>
#include <mutex>

namespace cxxrun::gpu {
namespace {

struct Gate {
  std::mutex mutex;  // so that nobody writes to a flag that has been taken back
  float* flag = nullptr;
};
/// Never destroyed: a thread may give NCCL up when static objects are.
Gate& gate() {
  static auto& made = *new Gate;
  return made;
}

}  // namespace

void set_gate(float* flag) noexcept {
  std::lock_guard const lock(gate().mutex);
  gate().flag = flag;
}

void shut_gate() noexcept {
  std::lock_guard const lock(gate().mutex);
  if (gate().flag != nullptr) {
    std::atomic_ref(*gate().flag).store(1.0F);
  }
}

}  // namespace cxxrun::gpu
