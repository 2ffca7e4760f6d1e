#include "launcher/workers/interpreter.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <elf.h>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

#include "launcher/facts/first_line.hpp"
#include "src/core/text.hpp"
#include "src/os/fd.hpp"
#include "src/os/fd_io.hpp"
#include "src/os/spawn.hpp"
#include "src/os/system.hpp"

namespace cxxrun::launcher {
namespace {

#if defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#else
constexpr unsigned kMachine = EM_X86_64;
#endif

/// Other programs may run files of formats of their own: binfmt_misc.
bool knows_other_formats() {
  auto const names = os::entries_of("/proc/sys/fs/binfmt_misc");
  return std::any_of(names.begin(), names.end(), [](std::string const& each) {
    return !each.starts_with('.') && each != "register" && each != "status";
  });
}

}  // namespace

Interpreter find_interpreter(std::string const& name, std::string const& path,
                             std::vector<std::string> const& environment, int depth) {
  constexpr int kDeepest = 4;  // of the kernel, which then says ELOOP
  os::UniqueFd const file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 256> start{};  // the kernel reads no more
  auto const size = os::retried([&] { return ::read(file.get(), start.data(), start.size()); });
  std::string_view const begin(start.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  auto const line = read_first_line(begin);
  if (line.interpreter.empty()) {
    bool const runs = size < 0 || is_executable_format(begin, kMachine) || knows_other_formats();
    return runs ? Interpreter{}
                : Interpreter{"", os::explain_failed_start(name, os::SpawnStage::exec, ENOEXEC), ENOEXEC};
  }
  // The kernel knows no PATH.
  auto const place = (line.interpreter.find('/') == std::string::npos ? "./" : "") + line.interpreter;
  auto const by_kernel = os::find_program(place, environment);
  bool const by_env = by_kernel.error == 0 && !line.by_env.empty();
  auto const found = by_env ? os::find_program(line.by_env, environment) : by_kernel;
  if (found.error == 0) {
    // What env cannot execute it hands to a shell, or looks for the next one of that name.
    auto deeper =
        by_env || depth == kDeepest ? Interpreter{} : find_interpreter(found.path, found.path, environment, depth + 1);
    return deeper.missing.empty() ? Interpreter{found.path} : deeper;
  }
  auto const& missing = by_env ? line.by_env : line.interpreter;
  return {"",
          "cannot start '" + name + "': its first line names the interpreter '" + printable(missing) + "', which " +
              (found.error != ENOENT ? "may not be executed; "
               : by_env              ? "is not in PATH; "
                                     : "does not exist; ") +
              (missing.ends_with('\r') ? "its lines end as on Windows: sed -i 's/\\r$//' " + shell_quote(path)
               : missing.find(' ') != std::string::npos ? "write 'env -S' for several words"
                                                        : "change that line, or name an interpreter before the script"),
          found.error};
}

}  // namespace cxxrun::launcher
