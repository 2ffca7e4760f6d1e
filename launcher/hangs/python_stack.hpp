// PythonStack: asks a Python program for the stacks of its threads, without a debugger and without being root. Shell.
//
// cxxrun.install() in the program (src/runtime/python/cxxrun/_stacks.py) has faulthandler write them to a memfd on a
// signal, from C, so that a program that holds the interpreter's lock answers too. The file's name holds the signal's
// number, and /proc/PID/fd shows it to this user; the signal is sent to a program that has a handler for it, and to no
// other.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

/// The signal in such a file's name ("/memfd:cxxrun-stacks-47 (deleted)"); 0: it is another file. Pure.
[[nodiscard]] int stack_signal(std::string_view file);

/// Whether the process, or one that it has started, is such a program.
[[nodiscard]] bool answers_python(pid_t pid);

struct PythonAnswer {
  std::string written;       ///< "": it is no such program, or does not answer
  bool was_stopped = false;  ///< it went on for the tenth of a second that this took, and is not what it was
};
/// Calls `done` once, from the io_context, within about 2 s.
void ask_python(boost::asio::io_context& io, pid_t pid, std::function<void(PythonAnswer const&)> done);

}  // namespace cxxrun::launcher
