// HangText: what is said and written of a worker that is killed because the others wait for it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/worker/page_view.hpp"

namespace cxxrun::launcher {

/// The debugger's command line: every thread's innermost 20 frames, no start-up files, no questions.
[[nodiscard]] std::vector<std::string> debugger_command(pid_t pid);

/// The frames of the main thread in what the debugger wrote, innermost first, at most `most`, each one safe line. The
/// main thread is the last one that gdb lists.
[[nodiscard]] std::vector<std::string> main_frames(std::string_view written, std::size_t most);

/// Where there are no frames: the line of it that says why, made safe.
[[nodiscard]] std::string why_no_stack(std::string_view written);

/// The innermost frames, at most `most`, of the main thread in what Python's faulthandler wrote: the last one,
/// whichever took the signal. Without those by which a torch.nn.Module calls its forward().
[[nodiscard]] std::vector<std::string> python_frames(std::string_view written, std::size_t most);

/// The stacks of one worker, as text: one or the other.
struct Stacks {
  std::string python;  ///< what faulthandler wrote; "": no Python, or it did not answer
  std::string native;  ///< then the debugger's, or why there is none
};
/// "train.py:33 in load": where the main thread is in the program: the innermost frame whose source is not a library's,
/// else the innermost. "": there is no stack.
[[nodiscard]] std::string place_in(Stacks const& stacks);
/// "train.py:33 in load (loader.py:8 in get < train.py:33 in load)": that place of a Python program, and its innermost
/// frames without their folders, at most `most`. "": there is no stack.
[[nodiscard]] std::string place_and_frames(std::string const& written, std::size_t most);
/// What hang.txt says: why, the last collectives newest first, the stacks.
[[nodiscard]] std::string hang_file(std::string const& why, std::vector<worker::SeenOperation> const& operations,
                                    Stacks const& stacks, TimePoint now);

}  // namespace cxxrun::launcher
