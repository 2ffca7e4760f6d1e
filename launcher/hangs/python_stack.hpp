// PythonStack: asks a Python program for the stacks of its threads, without a debugger and without root. Shell.
//
// cxxrun.install() in the program (src/runtime/python/cxxrun/_install.py) has faulthandler write them to a memfd on a
// signal. faulthandler is C code, so a program that holds the interpreter's lock answers, too. The file's name holds
// the number of the signal, and /proc/PID/fd shows it to this user. The signal is sent only to a program that has a
// handler for it.
#pragma once

#include <functional>
#include <string>
#include <sys/types.h>

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

/// Whether the process, or one of its descendants, is such a program.
[[nodiscard]] bool answers_python(pid_t pid);

struct PythonAnswer {
  std::string written;       ///< "": not such a program, or it did not answer
  bool was_stopped = false;  ///< it was continued for about 0.1 s to answer, so it may have moved
};
/// Calls `done` once, from the io_context, within about 2 s.
void ask_python(boost::asio::io_context& io, pid_t pid, std::function<void(PythonAnswer const&)> done);

}  // namespace cxxrun::launcher
