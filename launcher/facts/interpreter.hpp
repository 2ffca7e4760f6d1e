// How a program is run: by the kernel or an interpreter, and where the interpreter reads it from. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cxxrun::launcher {

struct FirstLine {
  std::string interpreter;  ///< "/usr/bin/env" in "#!/usr/bin/env -S python3 -u"; "" if it is not a script
  /// "python3": what env looks up in PATH, including blanks if -S is missing. "" if the interpreter is not env, or if
  /// options of env may change what is looked up or where.
  std::string by_env;
  bool operator==(FirstLine const&) const = default;
};
/// `start`: the first bytes of a file, at most as many as the kernel reads.
[[nodiscard]] FirstLine read_first_line(std::string_view start);

/// Whether a file that starts with `start` is a script that names its interpreter, or an ELF program for `machine`
/// (e_machine, for example EM_X86_64). x86-64 and AArch64 may also run their 32-bit programs.
[[nodiscard]] bool is_executable_format(std::string_view start, unsigned machine);

/// Whether the program comes from standard input: `python3 -`, `bash`, `sh -s`, or the commands of a debugger, `python3
/// -m pdb train.py`. `argv`: as executed. False for an unknown interpreter.
[[nodiscard]] bool runs_what_it_reads(std::vector<std::string> const& argv);

}  // namespace cxxrun::launcher
