#include "launcher/logs/log_dir.hpp"

#include <array>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/logs/log_names.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/pump_console.hpp"

using cxxrun::Errc;
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::os::UniqueFd;
using cxxrun::test::TempDir;

namespace fs = std::filesystem;

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

TEST_CASE("log_dir: in a TMPDIR where others may rename nothing is made, and nothing removed", "[process]") {
  TempDir dir;
  auto const base = dir / "base";
  fs::create_directory(base);
  auto const above = [](std::string const& path) { return fs::path(path).parent_path().string(); };
  auto const left = make_log_root("", "run", "n1", base)->path;  // by an agent that is killed
  CHECK(above(left) == base);
  CHECK(claim_temporary(left));
  bool safe = false;
  SECTION("everybody may") {
    fs::permissions(base, fs::perms::all);
  }
  SECTION("everybody may in the directory above") {
    fs::permissions(dir.path(), fs::perms::all);
  }
  SECTION("it is another user's") {
    if (chown(base.c_str(), 65534, 65534) != 0) {
      WARN("skipped: only root can give a directory away");
      return;
    }
  }
  SECTION("each may rename its own, as in /tmp") {
    fs::permissions(base, fs::perms::all | fs::perms::sticky_bit);
    safe = true;
  }
  auto const root = make_log_root("", "run", "n1", base);
  REQUIRE(root);
  CHECK(above(root->path) == (safe ? base : "/tmp"));
  auto const sockets = make_socket_dir(base);
  CHECK(above(sockets) == (safe ? base : "/tmp"));
  remove_socket_dir(sockets);
  remove_log_root(*root);
  static_cast<void>(sweep_temporary(base));
  CHECK(fs::exists(left) != safe);
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
  auto const gone = make_worker_dirs(dir / "gone/run", 0, 1);
  REQUIRE_FALSE(gone);
  CHECK_THAT(gone.error().message(), Catch::Contains("No such file or directory"));
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

namespace {

/// A directory of an agent that was killed together with its parent.
std::string abandoned(std::string const& base) {
  auto made = make_log_root("", "run", "n1", base)->path;
  CHECK(claim_temporary(made));
  return made;
}

}  // namespace

TEST_CASE("sweep: what a killed agent has left is removed with all in it, and no link is followed", "[process]") {
  TempDir dir;
  fs::create_directory(dir / "mine");
  std::ofstream(dir / "mine/file") << "kept";
  auto const left = abandoned(dir.path());
  REQUIRE(make_worker_dirs(left, 3, 2));
  std::ofstream(left + "/attempt_3/0/error.json") << "{}";
  fs::create_directory_symlink(dir / "mine", left + "/attempt_3/1/link");
  fs::create_symlink(dir / "mine/file", left + "/file");
  REQUIRE(mkfifo((left + "/attempt_3/fifo").c_str(), 0600) == 0);

  CHECK(sweep_temporary(dir.path()) >= 1);
  CHECK_FALSE(fs::exists(left));
  CHECK(cxxrun::test::file_text(dir / "mine/file") == "kept");
}

TEST_CASE("sweep: a directory stays while its agent lives, or a child that it has forked", "[process]") {
  TempDir dir;
  auto const made = make_log_root("", "run", "n1", dir.path())->path;
  auto claim = claim_temporary(made);
  REQUIRE(claim);
  CHECK((fcntl(claim.get(), F_GETFD) & FD_CLOEXEC) != 0);
  static_cast<void>(sweep_temporary(dir.path()));
  CHECK(fs::exists(made));

  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  UniqueFd const end(ends[0]);
  UniqueFd go_on(ends[1]);
  pid_t const child = fork();
  if (child == 0) {
    char nothing = 0;
    go_on.reset();
    _exit(static_cast<int>(read(end.get(), &nothing, 1)));
  }
  claim.reset();
  static_cast<void>(sweep_temporary(dir.path()));
  CHECK(fs::exists(made));

  go_on.reset();
  waitpid(child, nullptr, 0);
  static_cast<void>(sweep_temporary(dir.path()));
  CHECK_FALSE(fs::exists(made));
}

TEST_CASE("sweep: a directory stays that is no killed agent's for certain", "[process]") {
  TempDir dir;
  auto const kept = make_log_root("", "run", "n1", dir.path())->path;  // -r: with the logs that the user asked for
  std::ofstream(kept + "/stdout.log") << "words";
  auto const open = abandoned(dir.path());
  REQUIRE(chmod(open.c_str(), 0770) == 0);
  auto const rebooted = abandoned(dir.path());
  std::ofstream(rebooted + "/" + kOwnerFile) << "00000000-0000-0000-0000-000000000000";
  auto const linked_owner = make_log_root("", "run", "n1", dir.path())->path;
  fs::create_symlink(open + "/" + kOwnerFile, linked_owner + "/" + kOwnerFile);
  auto const elsewhere = dir / "elsewhere";
  fs::rename(abandoned(dir.path()), elsewhere);
  auto const link = dir / temporary_prefix(getuid()) + "abcdef";
  fs::create_directory_symlink(elsewhere, link);

  static_cast<void>(sweep_temporary(dir.path()));
  for (auto const& path : {kept, open, rebooted, linked_owner, elsewhere, link}) {
    CAPTURE(path);
    CHECK(fs::is_directory(path));
  }
  CHECK(fs::exists(elsewhere + "/" + kOwnerFile));
}

TEST_CASE("sweep: another user's directory stays, whatever it is called", "[process]") {
  if (geteuid() != 0) {
    WARN("not root: not tested");
    return;
  }
  TempDir dir;
  auto const others = abandoned(dir.path());
  auto const others_mark = abandoned(dir.path());
  REQUIRE(chown(others.c_str(), 65534, 65534) == 0);
  REQUIRE(chown((others_mark + "/" + kOwnerFile).c_str(), 65534, 65534) == 0);
  static_cast<void>(sweep_temporary(dir.path()));
  CHECK(fs::exists(others));
  CHECK(fs::exists(others_mark));
}

TEST_CASE("sweep: a start removes so many directories and no more, and the next one goes on", "[process]") {
  TempDir dir;
  for (int n = 0; n < 70; ++n) {
    abandoned(dir.path());
  }
  auto const left = [&] { return std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()); };
  CHECK(sweep_temporary(dir.path()) == 64);
  CHECK(left() >= 6);
  while (sweep_temporary(dir.path()) == 64) {  // of /tmp, too
  }
  CHECK(left() == 0);
}

TEST_CASE("sweep: a temporary directory that is not there is nobody's fault", "[process]") {
  TempDir dir;
  static_cast<void>(sweep_temporary(dir / "missing"));
  static_cast<void>(sweep_temporary(""));
  CHECK_FALSE(claim_temporary(dir / "missing"));
}
