// The command line of cxxrun. Pure.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "launcher/options/command_line.hpp"
#include "launcher/options/options.hpp"

namespace cxxrun::launcher {

[[nodiscard]] Command cxxrun_command(Options& options);
/// Over PET_*, and TORCH_DISABLE_SHARE_RDZV_TCP_STORE.
[[nodiscard]] std::variant<Options, EarlyExit> parse_options(std::vector<std::string> const& arguments,
                                                             Environment const& environment);

}  // namespace cxxrun::launcher
