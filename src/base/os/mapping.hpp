// Mapping: memory of mmap(2), unmapped with its owner. Shell.
#pragma once

#include <cstddef>
#include <memory>
#include <sys/mman.h>

namespace cxxrun::os {

struct Unmap {
  std::size_t bytes = 0;
  void operator()(void* memory) const noexcept { munmap(memory, bytes); }
};
using Mapping = std::unique_ptr<void, Unmap>;

/// Maps memory to read and write, at an address that the kernel chooses. Null with errno on failure.
[[nodiscard]] inline Mapping map_memory(std::size_t bytes, int flags, int fd = -1, off_t offset = 0) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);
  return {memory == MAP_FAILED ? nullptr : memory, {bytes}};
}

}  // namespace cxxrun::os
