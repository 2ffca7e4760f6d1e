// Which commands can be warm: those that an interpreter forked from a running one can carry out. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"

namespace cxxrun::launcher {

/// `python3 -u train.py --lr 1` or `python3 -m train --lr 1`, taken apart.
struct WarmCommand {
  std::vector<std::string> python;  ///< the interpreter and its options
  std::size_t script = 0;           ///< where the script, or -m, stands in the command
  bool operator==(WarmCommand const&) const = default;
};

/// By its name, as "/usr/bin/python3.11" is, and "pythonic" is not.
[[nodiscard]] bool is_python(std::string_view program);

/// Python, options of it that change nothing but how it runs, and a script whose name ends in .py, or -m and a module.
/// Else Errc::usage with what the command is instead.
[[nodiscard]] Result<WarmCommand> warm_command(std::vector<std::string> const& argv);

/// The same interpreter, which reads a text of at most `bytes` from its standard input, a socket, and runs it. The last
/// word is room for the arguments of workers like `argv`, which they show in the place of these.
[[nodiscard]] std::vector<std::string> zygote_command(WarmCommand const& command, std::vector<std::string> const& argv,
                                                      std::size_t bytes);

/// What a worker is told it is: counted lists of words, zero bytes between all. `script`: see WarmCommand.
[[nodiscard]] std::string warm_words(std::vector<std::string> const& argv, std::size_t script,
                                     std::vector<unsigned> const& cpus, std::vector<std::string> const& environment);

}  // namespace cxxrun::launcher
