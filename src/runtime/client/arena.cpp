#include "cxxrun/arena.hpp"

#include <algorithm>
#include <utility>

#include "cxxrun/failure.hpp"

namespace cxxrun {

Arena::Arena(std::span<std::byte> memory, std::shared_ptr<void const> owner, std::string holder)
    : memory_(memory), owner_(std::move(owner)), used_(std::make_shared<std::size_t>(0)), holder_(std::move(holder)) {}

std::span<std::byte> Arena::allocate_bytes(std::size_t bytes) {
  std::size_t const before = used();
  // The rounding cannot overflow: no object is larger than half the address space.
  std::size_t const first = std::min(size(), (before + kAlignment - 1) / kAlignment * kAlignment);
  if (bytes > size() - first) {
    throw Failure(fail(Errc::usage, (holder_.empty() ? "" : holder_ + ": ") + "arena exhausted: asked for " +
                                        std::to_string(bytes) + " bytes, " + std::to_string(before) + " of its " +
                                        std::to_string(size()) + " are used; make a larger one"));
  }
  if (bytes > 0) {
    *used_ = first + bytes;
  }
  return memory_.subspan(first, bytes);
}

}  // namespace cxxrun
