#include "launcher/place/python_package.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "src/base/core/text.hpp"
#include "src/base/os/folder.hpp"

namespace cxxrun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr char const* kBootstrap = "cxxrun/bootstrap";

/// Whether root, this user or the owner of `program` made everything from `prefix` down to `place`. Elsewhere others
/// may have put theirs beside a program: in /tmp/lib, for one in /tmp/bin.
bool is_of(fs::path const& program, fs::path const& prefix, fs::path place) {
  struct stat installed {};
  if (::stat(program.c_str(), &installed) != 0) {
    return false;
  }
  auto const is_known = [&](struct stat const& facts) {
    return facts.st_uid == installed.st_uid || facts.st_uid == ::geteuid() || os::is_root(facts.st_uid);
  };
  for (; place != prefix && place.has_relative_path(); place = place.parent_path()) {
    struct stat link {};
    struct stat facts {};
    if (::lstat(place.c_str(), &link) != 0 || ::stat(place.c_str(), &facts) != 0 || !is_known(link) ||
        !is_known(facts)) {
      return false;
    }
  }
  return true;
}

/// Adds PREFIX/lib/python3/dist-packages, and PREFIX/lib/python3.N/site-packages of each version.
void add_beside(std::string const& program, std::vector<fs::path>& folders) {
  if (program.empty()) {
    return;
  }
  auto const prefix = fs::path(program).parent_path().parent_path();
  auto const library = prefix / "lib";
  std::vector<fs::path> all{library / "python3/dist-packages"};
  std::error_code error;
  fs::directory_iterator each(library, error);
  for (; !error && each != fs::directory_iterator(); each.increment(error)) {
    if (each->path().filename().string().starts_with("python3.")) {
      all.push_back(each->path() / "site-packages");
    }
  }
  std::ranges::copy_if(all, std::back_inserter(folders), [&](fs::path const& folder) {
    return is_of(program, prefix, folder / kBootstrap / "sitecustomize.py");
  });
}

}  // namespace

std::string find_bootstrap(std::string_view python_path, std::string const& launcher, std::string const& interpreter) {
  std::vector<fs::path> folders;
  for (auto const& part : split(python_path, ':')) {
    if (!part.empty()) {  // the working directory, where others may be able to write
      folders.emplace_back(part);
    }
  }
  add_beside(launcher, folders);
  add_beside(interpreter, folders);
  for (auto const& folder : folders) {
    auto const place = folder / kBootstrap;
    std::error_code error;
    if (fs::is_regular_file(place / "sitecustomize.py", error)) {
      auto whole = fs::absolute(place, error).lexically_normal().string();
      return error || whole.find(':') != std::string::npos ? "" : whole;  // a colon cannot be in PYTHONPATH
    }
  }
  return {};
}

}  // namespace cxxrun::launcher
