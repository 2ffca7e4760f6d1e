// Whether an interpreter is to read its program from standard input, `python3 -`, `bash`, `sh -s`, or a debugger what
// to do with it, `python3 -m pdb train.py`. Pure.
#pragma once

#include <string>
#include <vector>

namespace cxxrun::launcher {

/// `argv`: as it is executed. False for a program that is not known as an interpreter.
[[nodiscard]] bool runs_what_it_reads(std::vector<std::string> const& argv);

}  // namespace cxxrun::launcher
