#include "launcher/workers/worker_program.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "launcher/facts/interpreter.hpp"
#include "launcher/warm/warm_command.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher {
namespace {

/// The interpreter that the first line of a script names.
struct Interpreter {
  std::string path{};     ///< "" when the file is not a script, or `missing` is set
  std::string missing{};  ///< one line: the interpreter does not exist (the kernel reports that as if the script did
                          ///< not), or the file is neither a script nor a program for this processor
  int error = 0;          ///< errno that belongs to `missing`
};

#if defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#else
constexpr unsigned kMachine = EM_X86_64;
#endif

/// Whether further executable formats are registered with the kernel (binfmt_misc).
bool knows_other_formats() {
  auto const names = os::entries_of("/proc/sys/fs/binfmt_misc");
  return std::ranges::any_of(
      names, [](std::string const& each) { return !each.starts_with('.') && each != "register" && each != "status"; });
}

/// The interpreter of the file at `path`, also when it is started through `env`. `name`: what the user calls the file.
/// `depth`: how many interpreters that are scripts themselves led here.
Interpreter find_interpreter(std::string const& name, std::string const& path,
                             std::vector<std::string> const& environment, int depth = 0) {
  constexpr int kDeepest = 4;  // the kernel's limit; beyond it execve fails with ELOOP
  os::UniqueFd const file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 256> start{};  // as much as the kernel reads
  auto const size = os::retried([&] { return ::read(file.get(), start.data(), start.size()); });
  std::string_view const begin(start.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  auto const line = read_first_line(begin);
  if (line.interpreter.empty()) {
    bool const runs = size < 0 || is_executable_format(begin, kMachine) || knows_other_formats();
    return runs ? Interpreter{}
                : Interpreter{"", os::explain_failed_start(name, os::SpawnStage::exec, ENOEXEC), ENOEXEC};
  }
  // The kernel does not search PATH.
  auto const place = (line.interpreter.find('/') == std::string::npos ? "./" : "") + line.interpreter;
  auto const by_kernel = os::find_program(place, environment);
  bool const by_env = by_kernel.error == 0 && !line.by_env.empty();
  auto const found = by_env ? os::find_program(line.by_env, environment) : by_kernel;
  if (found.error == 0) {
    // Behind env nothing deeper is checked: env runs what it cannot execute in a shell, or tries the next match in
    // PATH.
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

/// The script that Python runs, named by cxxrun or in the command; "" when none is known. When the command itself is a
/// script, its arguments are not checked: it may look for them elsewhere, for example in a container.
std::string script_of(WorkerSpec const& spec, Interpreter const& interpreter) {
  auto const command = warm_command(spec.argv);
  auto const named = command && interpreter.path.empty() ? spec.argv[command->script] : "";
  return !spec.script.empty() ? spec.script : named == "-m" ? "" : named;
}

WorkerProgram cannot_run(std::string const& what, int error, std::string why) {
  return {"", "", error, std::move(why), what};
}

/// Why a file that exists may not be executed, and what to type instead.
std::string why_not_executable(std::string const& path) {
  struct stat info {};
  struct statvfs system {};
  if (stat(path.c_str(), &info) != 0) {
    return "a directory above it may not be entered; try 'chmod +x' on that";
  }
  if (S_ISDIR(info.st_mode)) {
    return "it is a directory; name the program in it";
  }
  if (statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_NOEXEC) != 0) {
    return "its file system is mounted noexec; copy it to another, or name the interpreter before it";
  }
  return std::string(os::kNotExecutable);
}

WorkerProgram no_program(WorkerSpec const& spec, os::FoundProgram const& found) {
  auto const& name = spec.argv.front();
  if (!spec.own_python) {
    return cannot_run(found.path, found.error,
                      found.error == EACCES ? "cannot start '" + name + "': " + why_not_executable(found.path)
                                            : os::explain_failed_start(name, os::SpawnStage::find, found.error));
  }
  // The user has not named this program but the script or module: "python3 -u train.py", "python3 -u -m train".
  auto const& named = spec.script.empty() ? spec.argv.at(3) : spec.script;
  return cannot_run(found.path, found.error,
                    "cannot start '" + name + "', which runs '" + named + "': " +
                        (found.error != ENOENT                 ? "it may not be executed"
                         : name.find('/') == std::string::npos ? "no such program in PATH"
                                                               : "no such file") +
                        "; load the module or environment with Python, or name one in PYTHON_EXEC");
}

/// Nothing when Python can read the script. Without this check every rank would print Python's own error, after each
/// restart again.
std::optional<WorkerProgram> cannot_read(std::string const& script) {
  bool const read = access(script.c_str(), R_OK) == 0;
  int const error = !read ? errno : 0;
  std::error_code failed;
  if (read &&
      (!std::filesystem::is_directory(script, failed) || std::filesystem::exists(script + "/__main__.py", failed) ||
       std::filesystem::exists(script + "/__main__.pyc", failed))) {
    return std::nullopt;
  }
  std::string const why = read              ? "it is a directory without a __main__.py; name the script in it"
                          : error == EACCES ? "Permission denied; try 'chmod +r', or 'chmod +x' on its directories"
                                            : std::string(std::strerror(error)) + std::string(os::kIsItThere);
  return cannot_run((script.starts_with('/') ? "" : "./") + script, read ? EISDIR : error,
                    "cannot read the script '" + script + "': " + why);
}

}  // namespace

std::string absolute_name(std::string const& name) {
  std::error_code failed;
  auto const whole = std::filesystem::absolute(name, failed);
  bool const in_path = name.find('/') == std::string::npos;
  return in_path || failed ? name : whole.lexically_normal().string();
}

WorkerProgram find_worker_program(WorkerSpec const& spec) {
  std::string const name = spec.argv.empty() ? "" : spec.argv.front();
  auto found = os::find_program(name, spec.environment);
  if (found.error != 0) {
    return no_program(spec, found);
  }
  auto interpreter = find_interpreter(name, found.path, spec.environment);
  if (!interpreter.missing.empty()) {
    auto none = cannot_run(found.path, interpreter.error, interpreter.missing);
    none.path = interpreter.error == ENOEXEC ? found.path : "";
    return none;
  }
  auto const script = script_of(spec, interpreter);
  if (auto const unread = script.empty() ? std::nullopt : cannot_read(script)) {
    return *unread;
  }
  return {std::move(found.path), std::move(interpreter.path), 0, "", ""};
}

std::string place_of(std::string const& name) {
  std::error_code failed;
  auto const directory = std::filesystem::current_path(failed).string();
  return "'" + printable(absolute_name(name)) + "' (working directory " + (failed ? "gone" : printable(directory)) +
         ")";
}

}  // namespace cxxrun::launcher
