// OtherProgram: becomes another program, for commands that are not carried out here. Shell.
#pragma once

#include <string>
#include <vector>

namespace cxxrun::launcher::view {

/// Executes these words (other_program() in ctl_options.hpp): cxxrun is the one beside this program, and Python gets
/// the package of this installation. `input`: text for standard input, "" = ours. Returns an exit code if that fails.
[[nodiscard]] int become(std::vector<std::string> const& words, std::string const& input = "");

}  // namespace cxxrun::launcher::view
