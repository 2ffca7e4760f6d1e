// Memory that a test and the ranks that it forks share.
#pragma once

#include <new>
#include <sys/mman.h>

namespace cxxrun::test {

/// A T for as long as any of them lives; never destroyed.
template <class T>
T& shared() {
  void* const page = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return page != MAP_FAILED ? *new (page) T : throw std::bad_alloc();
}

}  // namespace cxxrun::test
