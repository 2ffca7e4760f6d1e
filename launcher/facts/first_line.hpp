// The beginning of a program's file: whether the kernel can execute it, and who is to run a script. Pure.
#pragma once

#include <string>
#include <string_view>

namespace cxxrun::launcher {

struct FirstLine {
  std::string interpreter;  ///< "/usr/bin/env" of "#!/usr/bin/env -S python3 -u"; "" for what is no script
  std::string by_env;  ///< "python3": what env looks for in PATH, with blanks in it where -S is missing; "" of another
                       ///< program, and with options of env that may change what is looked for, or where
  bool operator==(FirstLine const&) const = default;
};
/// `start`: the first bytes of a file, at most as many as the kernel looks at.
[[nodiscard]] FirstLine read_first_line(std::string_view start);

/// Whether a file that begins so is a script that names its interpreter, or a program (ELF) for `machine` (e_machine,
/// as EM_X86_64). Both of ours may run what is for 32 bits, too.
[[nodiscard]] bool is_executable_format(std::string_view start, unsigned machine);

}  // namespace cxxrun::launcher
