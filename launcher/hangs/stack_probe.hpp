// StackProbe: the stack of a process of this node, by way of a debugger. Shell.
#pragma once

#include <functional>
#include <string>
#include <sys/types.h>

#include "launcher/facts/environment.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

class Supervisor;

/// Runs gdb on `pid`, which stands still meanwhile, and calls `done` once, from the io_context, within about 12 s: with
/// what gdb wrote, or one line that says why there is nothing (no gdb in PATH, not allowed, too slow). The debugger is
/// a child of this process that the Supervisor reaps and never counts as a worker's. Blocks as long as a process takes
/// to start. `environment`: PATH, and what gdb inherits.
void probe_stack(boost::asio::io_context& io, Supervisor& supervisor, pid_t pid, Environment environment,
                 std::function<void(std::string written)> done);

}  // namespace cxxrun::launcher
