// Standard input: whether it holds something that is meant for this program. Nothing is read. Shell.
#pragma once

#include <cstddef>
#include <string_view>

namespace cxxrun::os {

/// Whether it is the null device.
[[nodiscard]] bool input_is_null();

/// Bytes that wait in it now: in a pipe, a socket, or a file from which nothing has been read. 0 for devices, and for a
/// terminal, where the input belongs to the process in the foreground.
[[nodiscard]] std::size_t waiting_input();

/// Whether it was inherited from a shell or another program that reads lines and starts programs: then the rest of the
/// input, such as a loop's list or a script, is for that program. Skips wrappers such as timeout.
[[nodiscard]] bool input_is_of_ancestor();

/// Whether the program of this name (at most 15 bytes) reads its input line by line and starts other programs. Pure.
[[nodiscard]] bool reads_lines(std::string_view comm);

/// Whether it is a terminal and this process is in its background: the input is for the shell or another process.
[[nodiscard]] bool input_is_in_background();

}  // namespace cxxrun::os
