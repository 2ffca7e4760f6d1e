#include "launcher/logs/sweep.hpp"

#include <array>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/logs/left_over.hpp"
#include "launcher/logs/log_dir.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/pump_console.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using cxxrun::os::UniqueFd;
using cxxrun::test::TempDir;

namespace fs = std::filesystem;

namespace {

/// As an agent makes it that is killed together with its parent.
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
