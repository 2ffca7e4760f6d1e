// Whether an interpreter is to read its program from standard input: `python3 -`, `bash`, `sh -s`. Pure.
#pragma once

#include <string>
#include <vector>

namespace cxxrun::launcher {

/// `argv`: as it is executed. False for a program that is not known as an interpreter.
[[nodiscard]] bool reads_program_from_input(std::vector<std::string> const& argv);

}  // namespace cxxrun::launcher
