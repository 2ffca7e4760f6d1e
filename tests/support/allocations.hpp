// Counts what this program allocates: its operator new is replaced. Always 0 with sanitizers, which have one of their
// own.
#pragma once

#include <cstddef>

namespace cxxrun::test {

/// Calls of operator new so far, on all threads.
[[nodiscard]] std::size_t allocations();

}  // namespace cxxrun::test
