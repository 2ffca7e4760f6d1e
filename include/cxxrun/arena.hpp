// Arena: memory that collectives use in place.
//
// Made by Communicator::arena(). The ranks of a node can read each other's arenas, so a sum over buffers in arenas
// reads and writes each element once and copies nothing. The memory is zero until written.
//
// With NCCL an Arena is zeroed memory on the rank's own device, which the host may access by cudaMemcpy only. In one
// call NCCL wants the buffers at the same offset in every rank's arena; making the same allocations on all ranks
// ensures that.
//
// An Arena hands out its memory front to back and takes nothing back: allocate once, before training. Copies of an
// Arena are handles of the same memory and share its fill level. The memory lives until all copies and the Communicator
// are gone. Threads: allocate() from one thread at a time.
#pragma once

#include "cxxrun/version.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace cxxrun {

/// A handle; see the top of this file.
class Arena {
 public:
  /// Offsets are multiples of this: two cache lines, enough for every element type.
  static constexpr std::size_t kAlignment = 128;

  Arena() = default;  ///< an empty arena of size 0
  /// `memory` must stay valid as long as `owner` lives. `holder` ("rank 3 on node2") appears in messages.
  Arena(std::span<std::byte> memory, std::shared_ptr<void const> owner, std::string holder = {});

  [[nodiscard]] std::size_t size() const { return memory_.size(); }
  [[nodiscard]] std::size_t used() const { return used_ ? *used_ : 0; }

  /// Returns the next `bytes` bytes. Failure (usage) if fewer are left; the message has the sizes.
  [[nodiscard]] std::span<std::byte> allocate_bytes(std::size_t bytes);

  template <class T>
  [[nodiscard]] std::span<T> allocate(std::size_t count) {
    // If the product overflows, ask for more than any arena has: a small buffer must not be the result.
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
