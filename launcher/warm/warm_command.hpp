// The warm Python as a command: which workers it can stand in for, how it is started, which modules it imports, and
// what a forked worker is told. Pure. docs/use/warm.md explains it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"

namespace cxxrun::launcher {

// ---- Commands -----------------------------------------------------------------------------------------------------

/// `python3 -u train.py --lr 1` or `python3 -m train --lr 1`, taken apart.
struct WarmCommand {
  std::vector<std::string> python;  ///< the interpreter and its options
  std::size_t script = 0;           ///< index of the script, or of -m, in the command
  bool operator==(WarmCommand const&) const = default;
};

/// Whether the program is Python, by its name: "/usr/bin/python3.11" is, "pythonic" is not.
[[nodiscard]] bool is_python(std::string_view program);

/// Accepts Python with a script whose name ends in .py, or with -m and a module. Options of Python are allowed unless
/// they change what it runs. Errors: usage, with what the command is instead.
[[nodiscard]] Result<WarmCommand> warm_command(std::vector<std::string> const& argv);

/// The command that starts the warm Python. The interpreter reads a program of at most `bytes` from its standard input,
/// a socket, and runs it. The last argument is padding: a worker overwrites it to show its own arguments, which are
/// like `argv`.
[[nodiscard]] std::vector<std::string> zygote_command(WarmCommand const& command, std::vector<std::string> const& argv,
                                                      std::size_t bytes);

/// The words that tell a forked worker what to be: lists, each with its length first, separated by zero bytes.
/// `script`: see WarmCommand.
[[nodiscard]] std::string warm_words(std::vector<std::string> const& argv, std::size_t script,
                                     std::vector<unsigned> const& cpus, std::vector<std::string> const& environment);

// ---- Imports of the workers ---------------------------------------------------------------------------------------

/// --warm=auto
inline constexpr std::string_view kWarmAuto = "auto";

/// A module that a worker has imported, as it reports in a file (src/runtime/python/cxxrun/_imports.py).
struct Import {
  std::string module;
  std::string by;      ///< the module that has imported it; "" = the script
  double seconds = 0;  ///< including the modules that it has imported itself
  bool operator==(Import const&) const = default;
};

/// The imports in the order of the lines. Skips lines of another form.
[[nodiscard]] std::vector<Import> parse_imports(std::string_view text);
/// "torch,transformers": the modules for the warm Python, in the order in which it imports them.
[[nodiscard]] std::string modules_of(std::vector<Import> const& imports);
/// The imports without that module and without the modules that have imported it.
[[nodiscard]] std::vector<Import> without(std::vector<Import> imports, std::string const& module);
/// The warning about modules that a forked worker has imported itself; "" when they took little time.
[[nodiscard]] std::string left_out_line(std::vector<Import> const& imports, bool automatic);

}  // namespace cxxrun::launcher
