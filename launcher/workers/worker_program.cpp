#include "launcher/workers/worker_program.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "launcher/warm/warm_command.hpp"
#include "launcher/workers/interpreter.hpp"
#include "src/core/text.hpp"
#include "src/os/spawn.hpp"

namespace cxxrun::launcher {
namespace {

/// The script that Python is given, by cxxrun itself or in the command; "" when none is known. A command that is a
/// script itself may look for its own elsewhere: in a container, say.
std::string script_of(WorkerSpec const& spec, Interpreter const& interpreter) {
  auto const command = warm_command(spec.argv);
  auto const named = command && interpreter.path.empty() ? spec.argv[command->script] : "";
  return !spec.script.empty() ? spec.script : named == "-m" ? "" : named;
}

WorkerProgram cannot_run(std::string const& what, int error, std::string why) {
  return {"", "", error, std::move(why), what};
}

/// What to type when there is a file, and it may not be executed.
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
  // The user has not named this program, but what it runs: "python3 -u train.py", "python3 -u -m train".
  auto const& named = spec.script.empty() ? spec.argv.at(3) : spec.script;
  return cannot_run(found.path, found.error,
                    "cannot start '" + name + "', which runs '" + named + "': " +
                        (found.error != ENOENT                 ? "it may not be executed"
                         : name.find('/') == std::string::npos ? "no such program in PATH"
                                                               : "no such file") +
                        "; load the module or environment with Python, or name one in PYTHON_EXEC");
}

/// Nothing when Python can read it. Else its own words would come out, from every rank and after each restart.
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
