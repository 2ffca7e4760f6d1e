// HangText: what is said and written of a worker that is killed because the others wait for it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "src/core/time.hpp"
#include "src/worker/page_view.hpp"

namespace cxxrun::launcher {

/// The debugger's command line: every thread's innermost 20 frames, no start-up files, no questions.
[[nodiscard]] std::vector<std::string> debugger_command(pid_t pid);

/// The frames of the main thread in what the debugger wrote, innermost first, at most `most`, each one safe line. The
/// main thread is the last one that gdb lists.
[[nodiscard]] std::vector<std::string> main_frames(std::string_view written, std::size_t most);

/// Where there are no frames: the line of it that says why, made safe.
[[nodiscard]] std::string why_no_stack(std::string_view written);

/// What hang.txt says: why, the last collectives newest first, the stack or why there is none.
[[nodiscard]] std::string hang_file(std::string const& why, std::vector<worker::SeenOperation> const& operations,
                                    std::string_view stack, TimePoint now);

}  // namespace cxxrun::launcher
