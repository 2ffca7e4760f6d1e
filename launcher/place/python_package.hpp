// Finds the Python package of this launcher. Through it a Python worker reports its collectives without a change of the
// program (--watch). Shell.
#pragma once

#include <string>
#include <string_view>

namespace cxxrun::launcher {

/// The directory with the sitecustomize.py, to be put in front of PYTHONPATH; "" if there is none. Searches the
/// directories of `python_path`, then the prefix of `launcher` (PREFIX/bin/cxxrun) and of `interpreter`
/// (PREFIX/bin/python3; "" = none), where pip and conda install packages.
[[nodiscard]] std::string find_bootstrap(std::string_view python_path, std::string const& launcher,
                                         std::string const& interpreter);

}  // namespace cxxrun::launcher
