// HangText: reads the stacks that debugger and faulthandler write, and formats what is said of a hanging worker. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/worker/page_view.hpp"

namespace cxxrun::launcher {

/// The debugger's command line: the innermost 20 frames of every thread, no start-up files, no questions. `alike`:
/// without addresses and values, in which workers at the same place differ.
[[nodiscard]] std::vector<std::string> debugger_command(pid_t pid, bool alike = false);

/// The frames of the main thread in the debugger's output, innermost first, at most `most`, each one safe line. gdb
/// lists the main thread last.
[[nodiscard]] std::vector<std::string> main_frames(std::string_view written, std::size_t most);

/// If there are no frames: the line of the debugger's output that says why, made safe.
[[nodiscard]] std::string why_no_stack(std::string_view written);

/// The signal in the name of a file for Python's stacks ("/memfd:cxxrun-stacks-47 (deleted)"); 0 for any other file.
[[nodiscard]] int stack_signal(std::string_view file);

/// The innermost frames of the main thread in faulthandler's output, at most `most`. The main thread comes last,
/// whichever thread took the signal. Leaves out the frames by which a torch.nn.Module calls its forward().
[[nodiscard]] std::vector<std::string> python_frames(std::string_view written, std::size_t most);

/// The stacks of one worker as text: Python's, or else native ones.
struct Stacks {
  std::string python;  ///< faulthandler's output; "": not Python, or it did not answer
  std::string native;  ///< used if `python` is "": the debugger's output, or why there is none
};
/// "train.py:33 in load": the program's line that the main thread is in, that is the innermost frame whose source is
/// not a library's, else the innermost frame. "": there is no stack.
[[nodiscard]] std::string place_in(Stacks const& stacks);
/// "train.py:33 in load (loader.py:8 in get < train.py:33 in load)": that place in a Python program, and its innermost
/// frames without their folders, at most `most`. "": there is no stack.
[[nodiscard]] std::string place_and_frames(std::string const& written, std::size_t most);
/// The content of hang.txt: why, the last collectives newest first, the stacks.
[[nodiscard]] std::string hang_file(std::string const& why, std::vector<worker::SeenOperation> const& operations,
                                    Stacks const& stacks, TimePoint now);

/// What to send to NCCL's RAS service, which answers each line and then closes the connection. It may take 3 s to ask
/// the other processes of the job (nccl src/ras/client_support.cc).
inline constexpr std::string_view kRasQuestion = "CLIENT PROTOCOL 2\nTIMEOUT 3\nVERBOSE STATUS\n";
/// What follows in hang.txt: the answer from `address` without the lines that are part of the protocol, safe to print.
[[nodiscard]] std::string ras_section(std::string const& address, std::string_view answer);

}  // namespace cxxrun::launcher
