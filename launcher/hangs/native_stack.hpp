// NativeStack: runs the debugger on a process of this user. Shell.
//
// Used before a worker that hangs is killed, and for `cxxrunctl stacks --native`. It needs gdb in PATH and the right to
// trace. The process stands still while it is traced, and goes on when the debugger has ended, however that ends.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/environment.hpp"
#include "src/base/core/time.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

class Supervisor;

/// What ask_debugger() takes at most.
inline constexpr Millis kDebuggerPatience{12'000};

/// Runs `command` (debugger_command()). Calls `done` once, from the io_context, within kDebuggerPatience, with what it
/// has written, which may be why there is no stack (not allowed, too slow). Errors: not_found (it is not in PATH), io.
/// The debugger is a child of this process; the Supervisor reaps it and never takes it for a worker. Blocks while the
/// process starts. `environment`: PATH, and what the debugger inherits.
void ask_debugger(boost::asio::io_context& io, Supervisor& supervisor, std::vector<std::string> command,
                  Environment environment, std::function<void(Result<std::string> const& written)> done);

}  // namespace cxxrun::launcher
