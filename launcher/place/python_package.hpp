// Where the Python package of this launcher is, by which a Python worker shows its collectives without a line of its
// own (--watch). Shell.
#pragma once

#include <string>
#include <string_view>

namespace cxxrun::launcher {

/// The directory with the sitecustomize.py that workers are to find in front of PYTHONPATH; "" when there is none.
/// Looked for in the directories of `python_path`, beside `launcher` (PREFIX/bin/cxxrun), and beside `interpreter`
/// (PREFIX/bin/python3, "" = none), where pip and conda put packages. Reads some directories.
[[nodiscard]] std::string find_bootstrap(std::string_view python_path, std::string const& launcher,
                                         std::string const& interpreter);

}  // namespace cxxrun::launcher
