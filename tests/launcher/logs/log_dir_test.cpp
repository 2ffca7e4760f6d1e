#include "launcher/logs/log_dir.hpp"

#include <filesystem>
#include <fstream>
#include <sys/mount.h>
#include <sys/stat.h>

#include "launcher/logs/log_names.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/pump_console.hpp"

using cxxrun::Errc;
using cxxrun::launcher::check_log_dir;
using cxxrun::launcher::check_temporary;
using cxxrun::launcher::LogRoot;
using cxxrun::launcher::make_log_root;
using cxxrun::launcher::make_socket_dir;
using cxxrun::launcher::make_worker_dirs;
using cxxrun::launcher::path_component;
using cxxrun::launcher::remove_log_root;
using cxxrun::launcher::remove_socket_dir;
using cxxrun::launcher::worker_log_dir;
using cxxrun::test::TempDir;

namespace fs = std::filesystem;

TEST_CASE("log_dir: a run id cannot leave the directory", "[unit]") {
  CHECK(path_component("job-7.0") == "job-7.0");
  CHECK(path_component("a/../b") == "a_.._b");
  CHECK(path_component("..") == "_.");
  CHECK(path_component(".hidden") == "_hidden");
  CHECK(path_component("") == "_");
  CHECK(path_component("a\nb\x7f") == "a_b_");
  CHECK(path_component(std::string(500, 'x')).size() == 200);
}

TEST_CASE("log_dir: the layout is attempt_<generation>/<local rank>", "[unit]") {
  CHECK(worker_log_dir("/l/run_host", 3, 12) == "/l/run_host/attempt_3/12");
}

TEST_CASE("log_dir: every agent gets a directory of its own, parents included", "[process]") {
  TempDir dir;
  auto const base = dir / "new/logs";

  CHECK(make_log_root(base, "run", "n1", "")->path == base + "/run_n1");
  CHECK(make_log_root(base, "run", "n1", "")->path == base + "/run_n1-2");
  CHECK(make_log_root(base, "run", "n1", "")->path == base + "/run_n1-3");
  CHECK(make_log_root(base + "/", "a/b", "n2", "")->path == base + "//a_b_n2");
  CHECK(make_log_root(base, std::string(500, 'r'), std::string(500, 'h'), "").has_value());
}

TEST_CASE("log_dir: without --log-dir it is private, temporary and removed", "[process]") {
  TempDir dir;
  auto const root = make_log_root("", "run", "n1", dir.path());
  REQUIRE(root);

  struct stat status {};
  REQUIRE(stat(root->path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  CHECK(root->path.rfind(dir / ("cxxrun-" + std::to_string(getuid()) + "-"), 0) == 0);
  CHECK(make_worker_dirs(root->path, 0, 2));
  remove_log_root(*root);
  CHECK_FALSE(fs::exists(root->path));
}

TEST_CASE("log_dir: a TMPDIR that does not exist on this node falls back to /tmp", "[process]") {
  TempDir dir;
  auto const root = make_log_root("", "run", "n1", dir / "missing");
  REQUIRE(root);
  CHECK(root->path.rfind("/tmp/cxxrun-", 0) == 0);
  remove_log_root(*root);
}

TEST_CASE("log_dir: the directory for sockets is private, and short enough for their names", "[process]") {
  TempDir dir;
  auto const near = make_socket_dir(dir.path());
  struct stat status {};
  REQUIRE(stat(near.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  CHECK(near.starts_with(dir / "cxxrun-"));
  auto const far = dir / std::string(60, 'x');
  REQUIRE(fs::create_directory(far));
  for (auto const& base : {far, dir / "missing", std::string("relative"), std::string()}) {
    auto const made = make_socket_dir(base);
    CHECK(made.starts_with("/tmp/cxxrun-"));
    remove_socket_dir(made);
    CHECK_FALSE(fs::exists(made));
  }
}

TEST_CASE("log_dir: a directory that the user named is never removed", "[process]") {
  TempDir dir;
  auto const root = make_log_root(dir.path(), "run", "n1", "");
  REQUIRE(root);
  remove_log_root(*root);
  CHECK(fs::is_directory(root->path));
}

TEST_CASE("log_dir: /dev/null means no files and no directories", "[process]") {
  auto const root = make_log_root("/dev/null", "run", "n1", "");
  REQUIRE(root);
  CHECK(*root == LogRoot{});
  CHECK(make_worker_dirs("", 0, 8));
}

TEST_CASE("log_dir: worker directories are made for each generation and keep what is there", "[process]") {
  TempDir dir;
  CHECK(make_worker_dirs(dir.path(), 0, 12));
  std::ofstream(dir / "attempt_0/11/stdout.log") << "kept";
  CHECK(make_worker_dirs(dir.path(), 0, 13));
  CHECK(make_worker_dirs(dir.path(), 1, 1));

  CHECK(cxxrun::test::file_text(dir / "attempt_0/11/stdout.log") == "kept");
  CHECK(fs::is_directory(dir / "attempt_0/12"));
  CHECK(fs::is_directory(dir / "attempt_1/0"));
  CHECK_FALSE(fs::exists(dir / "attempt_1/1"));
}

TEST_CASE("log_dir: names that somebody has taken, all of them, hold nobody up", "[process]") {
  TempDir dir;
  for (int run = 1; run < 1000; ++run) {
    fs::create_directory(dir / (run == 1 ? "run_n1" : "run_n1-" + std::to_string(run)));
  }
  auto const root = make_log_root(dir.path(), "run", "n1", "");
  REQUIRE(root);
  CHECK(root->path.starts_with(dir / "run_n1-"));
  CHECK(fs::is_empty(root->path));
}

TEST_CASE("log_dir: no directory of another user's is entered", "[process]") {
  TempDir dir;
  fs::create_directories(dir / "run/attempt_1");
  for (auto const& each : {dir.path(), dir / "run", dir / "run/attempt_1"}) {
    chmod(each.c_str(), 0777);
  }
  if (chown((dir / "run/attempt_1").c_str(), 65534, 65534) != 0 || seteuid(1500) != 0) {
    WARN("skipped: only root can be two users");
    return;
  }
  auto const made = make_worker_dirs(dir / "run", 1, 1);
  auto const next = make_worker_dirs(dir / "run", 2, 1);
  CHECK(seteuid(0) == 0);
  CHECK_FALSE(made);
  CHECK(next);
  CHECK_FALSE(fs::exists(dir / "run/attempt_1/0"));
}

TEST_CASE("log_dir: what could be made is known beforehand, and nothing is made", "[process]") {
  TempDir dir;
  std::ofstream(dir / "file") << "no directory";

  CHECK(check_log_dir("/dev/null", ""));
  CHECK(check_log_dir(dir.path(), ""));
  CHECK(check_log_dir(dir / "new/logs", ""));
  CHECK_FALSE(fs::exists(dir / "new"));
  CHECK(check_log_dir(dir / "file", "").error().code == Errc::not_found);
  CHECK(check_log_dir(dir / "file/logs", "").error().code == Errc::not_found);
  CHECK(check_log_dir("", ""));
  CHECK(check_log_dir("", dir / "file"));  // in /tmp
  CHECK(check_temporary(dir.path()));
  CHECK(check_temporary(dir / "new").error().code == Errc::not_found);  // its parents are not made
  CHECK(check_temporary(dir / "file").error().code == Errc::not_found);
}

TEST_CASE("log_dir: a file in the way is named with the remedy", "[process]") {
  TempDir dir;
  std::ofstream(dir / "file") << "x";

  for (auto const& path : {dir / "file", dir / "file/below"}) {
    auto const root = make_log_root(path, "run", "n1", "");
    REQUIRE_FALSE(root);
    CHECK(root.error().code == Errc::not_found);
    CHECK_THAT(root.error().message(), Catch::Contains(path) && Catch::Contains("choose another --log-dir") &&
                                           Catch::Contains("Not a directory"));
  }
  std::ofstream(dir / "attempt_0") << "x";
  CHECK_FALSE(make_worker_dirs(dir.path(), 0, 1));
}

TEST_CASE("log_dir: a directory that takes no entries is named", "[process]") {
  auto const root = make_log_root("/proc", "run", "n1", "");
  REQUIRE_FALSE(root);
  CHECK_THAT(root.error().message(), Catch::Contains("/proc/run_n1") && Catch::Contains("--log-dir"));
  CHECK_FALSE(make_worker_dirs("/proc", 0, 1));
}

TEST_CASE("log_dir: a full file system is said to be full", "[process]") {
  TempDir dir;
  fs::create_directory(dir / "full");
  if (mount("cxxrun-test", (dir / "full").c_str(), "tmpfs", 0, "nr_inodes=4,size=64k") != 0) {
    WARN("not root, or no mount allowed here: not tested");
    return;
  }
  auto const made = make_worker_dirs(dir / "full", 0, 8);
  umount(((dir / "full")).c_str());

  REQUIRE_FALSE(made);
  CHECK(made.error().code == Errc::io);
  CHECK_THAT(made.error().message(), Catch::Contains("No space left") && Catch::Contains("free space"));
}
