// Limit signs: what a worker's stderr says of a limit that it has reached, and which one it is here. Pure.
#pragma once

#include <string_view>

#include "launcher/report/death.hpp"
#include "src/base/core/limits.hpp"

namespace cxxrun::launcher {

/// `limits`: of the worker, those of its user as they are now. Empty when it speaks of none. Total.
[[nodiscard]] Explanation explain_limits(std::string_view said, Limits const& limits);

}  // namespace cxxrun::launcher
