#include "launcher/workers/worker_program.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <system_error>
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

WorkerProgram find_worker_program(WorkerSpec const& spec) {
  std::string const name = spec.argv.empty() ? "" : spec.argv.front();
  auto found = os::find_program(name, spec.environment);
  if (found.error != 0) {
    return {"", found.error, os::explain_failed_start(name, os::SpawnStage::find, found.error), name};
  }
  if (!spec.script.empty() && access(spec.script.c_str(), R_OK) != 0) {  // else the interpreter's own code comes out
    int const error = errno;
    return {"", error, fail(Errc::not_found, "cannot read the script '" + spec.script + "'", error).message(),
            (spec.script.starts_with('/') ? "" : "./") + spec.script};
  }
  return {std::move(found.path), 0, "", ""};
}

Interpreter find_interpreter(std::string const& name, std::string const& path,
                             std::vector<std::string> const& environment) {
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
  auto const by_env = !line.by_env.empty();
  auto const& wanted = by_env ? line.by_env : line.interpreter;
  bool const gone = access(line.interpreter.c_str(), F_OK) != 0 && errno == ENOENT;
  auto const found = gone ? os::FoundProgram{line.interpreter, ENOENT} : os::find_program(wanted, environment);
  if (!gone && found.error != ENOENT) {
    return {found.path, ""};
  }
  auto const& missing = gone ? line.interpreter : wanted;
  return {"", "cannot start '" + name + "': its first line names the interpreter '" + printable(missing) + "', which " +
                  (gone ? "does not exist; " : "is not in PATH; ") +
                  (missing.ends_with('\r') ? "its lines end as on Windows: sed -i 's/\\r$//' " + shell_quote(path)
                                           : "change that line, or name an interpreter before the script")};
}

std::string place_of(std::string const& name) {
  std::error_code failed;
  auto const directory = std::filesystem::current_path(failed).string();
  bool const in_path = name.find('/') == std::string::npos;
  auto const whole = in_path || failed ? name : (directory / std::filesystem::path(name)).lexically_normal().string();
  return "'" + printable(whole) + "' (working directory " + (failed ? "gone" : printable(directory)) + ")";
}

}  // namespace cxxrun::launcher
