// The options of other launchers that mean one thing to cxxrun. Pure.
#pragma once

#include <vector>

#include "launcher/options/option_table.hpp"

namespace cxxrun::launcher {

[[nodiscard]] std::vector<ForeignOption> foreign_options();

}  // namespace cxxrun::launcher
