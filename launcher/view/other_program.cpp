#include "launcher/view/other_program.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

#include "launcher/facts/environment.hpp"
#include "launcher/place/python_package.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher::view {
namespace {

int cannot(std::string const& what, int error) {
  std::fprintf(stderr, "cxxrunctl: cannot %s: %s\n", what.c_str(), std::strerror(error));
  return kExitSystem;
}

/// Makes the text standard input.
bool give(std::string const& input) {
  os::UniqueFd const file(::memfd_create("cxxrunctl", MFD_CLOEXEC));
  return file && os::write_all(file.get(), input) && ::lseek(file.get(), 0, SEEK_SET) == 0 &&
         ::dup2(file.get(), STDIN_FILENO) == STDIN_FILENO;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  std::transform(words.begin(), words.end(), std::back_inserter(pointers), [](auto& word) { return word.data(); });
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

int become(std::vector<std::string> const& words, std::string const& input) {
  std::error_code ignored;
  auto const beside = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string() + "/cxxrun";
  auto environment = os::read_environment();
  auto path = beside;
  if (words.front() != "cxxrun") {
    auto const found = os::find_program(words.front(), as_words(environment));
    if (found.error != 0) {
      return cannot("start " + words.front(), found.error);
    }
    path = found.path;
    auto& python_path = environment["PYTHONPATH"];
    auto const bootstrap = find_bootstrap(python_path, beside, path);
    python_path = bootstrap.empty()
                      ? python_path
                      : os::parent_of(os::parent_of(bootstrap)) + (python_path.empty() ? "" : ":") + python_path;
  }
  if (!input.empty() && !give(input)) {
    return cannot("pass on what the job tells", errno);
  }
  auto arguments = words;
  auto variables = as_words(environment);
  std::signal(SIGPIPE, SIG_DFL);  // NOLINT(cert-err33-c): it is inherited
  ::execve(path.c_str(), pointers_to(arguments).data(), pointers_to(variables).data());
  return cannot("start " + path, errno);
}

}  // namespace cxxrun::launcher::view
