#include "launcher/place/python_package.hpp"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

using cxxrun::launcher::find_bootstrap;
using cxxrun::test::TempDir;
namespace fs = std::filesystem;

namespace {

constexpr char const* kPlace = "cxxrun/bootstrap";

/// Has a package there.
void install(std::string const& folder) {
  fs::create_directories(folder + "/" + kPlace);
  std::ofstream(folder + "/" + kPlace + "/sitecustomize.py") << "";
}

/// Enters it until the end of the scope.
struct In {
  explicit In(std::string const& directory) : before(fs::current_path()) { fs::current_path(directory); }
  ~In() {
    std::error_code failed;
    fs::current_path(before, failed);
  }
  In(In const&) = delete;
  In& operator=(In const&) = delete;
  fs::path before;
};

}  // namespace

TEST_CASE("python_package: in PYTHONPATH, then beside the launcher, then beside Python", "[process]") {
  TempDir const directory;
  std::string const launcher = directory.file("one/bin/cxxrun"), python = directory.file("two/bin/python3");
  for (auto const& program : {launcher, python}) {
    fs::create_directories(fs::path(program).parent_path());
    std::ofstream(program) << "";
  }
  auto const found = [&] {
    return find_bootstrap(directory.file("none") + ":" + directory.file("own"), launcher, python);
  };
  CHECK(found() == "");
  install(directory.file("two/lib/python3.12/site-packages"));
  CHECK(found() == directory.file("two/lib/python3.12/site-packages/") + kPlace);
  install(directory.file("one/lib/python3/dist-packages"));
  CHECK(found() == directory.file("one/lib/python3/dist-packages/") + kPlace);
  install(directory.file("own"));
  CHECK(found() == directory.file("own/") + kPlace);
}

TEST_CASE("python_package: an empty part of PYTHONPATH is no place to look", "[process]") {
  TempDir const directory;
  install(directory.path());
  In const there(directory.path());
  for (auto const* const path : {"", ":", "/nowhere:", ":/nowhere"}) {
    CAPTURE(path);
    CHECK(find_bootstrap(path, "", "") == "");
  }
  CHECK(find_bootstrap(".", "", "") == directory.file(kPlace));
}

TEST_CASE("python_package: what a stranger has put beside a program is not believed", "[process]") {
  TempDir const directory;
  std::string const launcher = directory.file("bin/cxxrun");
  fs::create_directories(directory.file("bin"));
  std::ofstream(launcher) << "";
  auto const packages = GENERATE(std::string("lib/python3/dist-packages"), std::string("lib/python3.11/site-packages"));
  install(directory.file(packages));
  std::string const ours = directory.file(packages) + "/" + kPlace;
  auto const found = [&] { return find_bootstrap("", launcher, ""); };
  CHECK(found() == ours);
  if (::geteuid() != 0) {
    WARN("skipped: only root can give a file away");
    return;
  }
  for (fs::path strangers = ours + "/sitecustomize.py"; strangers != directory.path();
       strangers = strangers.parent_path()) {
    CAPTURE(strangers.string());
    REQUIRE(::chown(strangers.c_str(), 65534, 65534) == 0);
    CHECK(found() == "");
    REQUIRE(::chown(launcher.c_str(), 65534, 65534) == 0);  // who has installed both
    CHECK(found() == ours);
    REQUIRE(::chown(launcher.c_str(), 0, 0) == 0);
    REQUIRE(::chown(strangers.c_str(), 0, 0) == 0);
  }
  fs::rename(directory.file("lib"), directory.file("real"));
  fs::create_directory_symlink("real", directory.file("lib"));
  CHECK(found() == ours);
  REQUIRE(::lchown(directory.file("lib").c_str(), 65534, 65534) == 0);  // who may let it lead elsewhere at any time
  CHECK(found() == "");
}
