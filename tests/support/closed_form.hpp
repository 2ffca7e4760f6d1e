// Calls whose results are known in closed form: element i of rank r is i % 13 + r, exact in every type.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/core/call.hpp"
#include "src/runtime/cpu/common/backend.hpp"

namespace cxxrun::test {

/// Fills `in`, runs the call on both buffers, and compares all of `out`; `in` must stay as it is. "" or what is wrong,
/// with rank and element.
std::string attempt(host::Backend& backend, comm::Call call, int rank, int world, std::byte* in, std::byte* out);

}  // namespace cxxrun::test
