// Who runs a script: by its first line. Shell.
#pragma once

#include <string>
#include <vector>

namespace cxxrun::launcher {

struct Interpreter {
  std::string path{};     ///< "" for a file that is no script, and when it is missing
  std::string missing{};  ///< one line: it does not exist, which the kernel tells as if the script did not, or the file
                          ///< is neither a script nor a program for this processor
  int error = 0;          ///< errno of what is missing
};

/// The file that runs the one at `path`, through `env` too. `name`: how the user calls it. `depth`: of interpreters
/// that are scripts themselves.
[[nodiscard]] Interpreter find_interpreter(std::string const& name, std::string const& path,
                                           std::vector<std::string> const& environment, int depth = 0);

}  // namespace cxxrun::launcher
