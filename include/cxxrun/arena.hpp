// Arena: memory that collectives can use where it is.
//
// Made by Communicator::arena(). Ranks of a node see each other's arenas, so a sum over buffers in them reads and
// writes each element once and copies nothing. Pages are zero until written.
//
// With NCCL it is memory of the rank's device: the host may not touch it, but by cudaMemcpy; it is zero, and each
// rank's own. NCCL wants the buffers of one call at the same offset in every rank's arena, which equal allocations
// give.
//
// An Arena hands out its memory front to back and takes nothing back; allocate once, before training. Copies are
// handles of the same memory: what one hands out, no other does. The memory lives until all copies and the
// Communicator are gone.
// Threads: allocate() from one thread at a time.
#pragma once

#include "cxxrun/version.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace cxxrun {

class Arena {
 public:
  /// Offsets are multiples of this: a cache line pair, and enough for every element type.
  static constexpr std::size_t kAlignment = 128;

  Arena() = default;  ///< of size 0
  /// `memory` must live as long as `owner` does. `holder` ("rank 3 on node2") is for messages.
  Arena(std::span<std::byte> memory, std::shared_ptr<void const> owner, std::string holder = {});

  [[nodiscard]] std::size_t size() const { return memory_.size(); }
  [[nodiscard]] std::size_t used() const { return used_ ? *used_ : 0; }

  /// The next `bytes` bytes. Failure (usage) when fewer are left: it says how many were asked for, used and there.
  [[nodiscard]] std::span<std::byte> allocate_bytes(std::size_t bytes);

  template <class T>
  [[nodiscard]] std::span<T> allocate(std::size_t count) {
    // A product that overflows must not become a small buffer: what is asked for then is more than there can be.
    std::size_t const bytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    return {reinterpret_cast<T*>(allocate_bytes(bytes).data()), count};
  }

 private:
  std::span<std::byte> memory_;
  std::shared_ptr<void const> owner_;
  std::shared_ptr<std::size_t> used_;
  std::string holder_;
};

}  // namespace cxxrun
