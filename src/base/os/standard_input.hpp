// Standard input: whether there is something in it that was meant for this program. Nothing is read.
#pragma once

#include <cstddef>
#include <string_view>

namespace cxxrun::os {

/// Whether it is the null device.
[[nodiscard]] bool input_is_null();

/// Bytes that wait in it now: in a pipe, a socket, or a file that nobody has read from. 0 for a terminal, what is typed
/// there is whose turn it is, and for devices.
[[nodiscard]] std::size_t waiting_input();

/// Whether a shell or another program that reads lines and starts others has the same standard input, and has handed it
/// down: the rest of a loop's list, or of a script, is its own. Wrappers such as timeout are passed over.
[[nodiscard]] bool input_is_of_ancestor();

/// Whether programs called so (at most 15 bytes) read what they are given line by line, and start others meanwhile.
/// Pure.
[[nodiscard]] bool reads_lines(std::string_view comm);

/// Whether it is a terminal in whose background this process is: what is typed there is the shell's, or another's.
[[nodiscard]] bool input_is_in_background();

}  // namespace cxxrun::os
