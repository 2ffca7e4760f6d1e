#include "launcher/place/python_package.hpp"

#include <filesystem>
#include <system_error>
#include <vector>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

namespace fs = std::filesystem;

/// Adds PREFIX/lib/python3/dist-packages, and PREFIX/lib/python3.N/site-packages of each version.
void add_beside(std::string const& program, std::vector<fs::path>& folders) {
  if (program.empty()) {
    return;
  }
  auto const library = fs::path(program).parent_path().parent_path() / "lib";
  folders.push_back(library / "python3/dist-packages");
  std::error_code error;
  fs::directory_iterator each(library, error);
  for (; !error && each != fs::directory_iterator(); each.increment(error)) {
    if (each->path().filename().string().starts_with("python3.")) {
      folders.push_back(each->path() / "site-packages");
    }
  }
}

}  // namespace

std::string find_bootstrap(std::string_view python_path, std::string const& launcher, std::string const& interpreter) {
  std::vector<fs::path> folders;
  for (auto const& part : split(python_path, ':')) {
    folders.emplace_back(part.empty() ? "." : part);
  }
  add_beside(launcher, folders);
  add_beside(interpreter, folders);
  for (auto const& folder : folders) {
    auto const place = folder / "cxxrun/bootstrap";
    std::error_code error;
    if (fs::is_regular_file(place / "sitecustomize.py", error)) {
      auto whole = fs::absolute(place, error).lexically_normal().string();
      return error || whole.find(':') != std::string::npos ? "" : whole;  // a colon cannot be in PYTHONPATH
    }
  }
  return {};
}

}  // namespace cxxrun::launcher
