#include "src/base/os/file_lock.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/os/system.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/checkpoint_scratch.hpp"
#include "tests/support/fixtures.hpp"
#include "tests/support/ranks.hpp"

using namespace cxxrun::os;  // NOLINT(google-build-using-namespace)
using cxxrun::test::has;
using cxxrun::test::mode_of;
using cxxrun::test::Scratch;
using cxxrun::test::write_file;
namespace fs = std::filesystem;

TEST_CASE("file lock: one has it, the others know who, and whoever lets go is not named", "[process]") {
  Scratch const scratch;
  auto const folder = Folder::open(scratch.path);
  {
    auto const lock = try_lock(folder, "lock");
    REQUIRE(lock);
    CHECK(mode_of(scratch.at("lock")) == 0600);
    CHECK_FALSE(try_lock(folder, "lock"));
    CHECK(errno == EWOULDBLOCK);
    CHECK(has(lock_holder(folder, "lock"), "pid " + std::to_string(::getpid()) + " ("));
  }
  CHECK(lock_holder(folder, "lock").empty());
  CHECK(try_lock(folder, "lock"));
}

TEST_CASE("file lock: what a lock of another node says is told, what one of this node says is not", "[process]") {
  Scratch const scratch;
  auto const folder = Folder::open(scratch.path);
  ::umask(022);
  { CHECK(try_lock(folder, "lock")); }
  write_file(scratch.at("lock"), "pid 7 on far-away");
  CHECK(lock_holder(folder, "lock") == "pid 7 on far-away");
  write_file(scratch.at("lock"), "pid 7 on " + host_name());  // that process died; the holder has not signed
  CHECK(lock_holder(folder, "lock").empty());
  ::chmod(scratch.at("lock").c_str(), 0644);
  write_file(scratch.at("lock"), "pid 7 on far-away");  // the holder may be any process
  CHECK(lock_holder(folder, "lock").empty());
}

TEST_CASE("file lock: one that others could have opened is replaced, at once or when patience is over", "[process]") {
  Scratch const scratch;
  auto const folder = Folder::open(scratch.path);
  write_file(scratch.at("lock"), "");
  ::chmod(scratch.at("lock").c_str(), 0644);
  UniqueFd const other(::open(scratch.at("lock").c_str(), O_RDONLY | O_CLOEXEC));
  SECTION("nobody has it") {
    CHECK(try_lock(folder, "lock"));
  }
  SECTION("somebody has it") {
    REQUIRE(::flock(other.get(), LOCK_SH) == 0);
    CHECK_FALSE(try_lock(folder, "lock"));
    CHECK(errno == EWOULDBLOCK);
    CHECK(mode_of(scratch.at("lock")) == 0644);
    CHECK(try_lock(folder, "lock", Patience::none));
  }
  CHECK(mode_of(scratch.at("lock")) == 0600);
  CHECK_FALSE(folder.leads_to("lock", other.get()));
  CHECK(::flock(other.get(), LOCK_EX | LOCK_NB) == 0);  // and blocks no other process
  CHECK(try_lock(folder, "lock"));
  CHECK(cxxrun::test::files_in(scratch.path) == std::set<std::string>{"lock"});
}

TEST_CASE("file lock: of many that replace one at once no two have the new one together", "[process]") {
  Scratch const scratch;
  write_file(scratch.at("lock"), "");
  ::chmod(scratch.at("lock").c_str(), 0644);
  write_file(scratch.at("lock.tmp"), "");  // left by a process that died
  ::chmod(scratch.at("lock.tmp").c_str(), 0600);
  constexpr int kTimes = 400;
  auto const ends = cxxrun::test::run_ranks(4, [&](int rank) -> std::string {
    auto const folder = Folder::open(scratch.path);
    for (int done = 0; done < kTimes;) {
      auto lock = try_lock(folder, "lock");
      if (!lock) {
        if (errno != EWOULDBLOCK) {
          return std::to_string(errno);
        }
        continue;
      }
      auto const alone = folder.create("alone");  // EEXIST: another process is in
      if (!alone) {
        return "rank " + std::to_string(rank) + " is not alone";
      }
      folder.remove("alone");
      ++done;
      if (rank == 0) {
        ::chmod(scratch.at("lock").c_str(), 0644);
      }
    }
    return "";
  });
  for (auto const& end : ends) {
    CHECK(end.said == "");
  }
}

TEST_CASE("file lock: one of another user's is replaced where that is possible, and refused where not", "[process]") {
  if (::geteuid() != 0) {
    WARN("skipped: only root can become somebody else");
    return;
  }
  mode_t const theirs = GENERATE(0666, 0600);
  bool const sticky = GENERATE(false, true);
  Scratch const scratch;
  ::chmod(scratch.path.c_str(), sticky ? 01777 : 0777);
  write_file(scratch.at("lock"), "");
  REQUIRE(::chown(scratch.at("lock").c_str(), 65534, 65534) == 0);
  REQUIRE(::chmod(scratch.at("lock").c_str(), theirs) == 0);
  UniqueFd const other(::open(scratch.at("lock").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);
  auto const ends = cxxrun::test::run_ranks(1, [&](int) -> std::string {
    if (::seteuid(1500) != 0) {
      return "seteuid failed";
    }
    auto const folder = Folder::open(scratch.path);
    bool const had = try_lock(folder, "lock").has_value();
    return had ? "had" : errno == EPERM ? "refused" : std::to_string(errno);
  });
  CHECK(ends[0].said == (sticky ? "refused" : "had"));
}

TEST_CASE("file lock: links and pipes in its place are refused", "[process]") {
  Scratch const scratch;
  auto const folder = Folder::open(scratch.path);
  write_file(scratch.at("precious"), "as it was");
  SECTION("a link") {
    fs::create_symlink(scratch.at("precious"), scratch.at("lock"));
  }
  SECTION("a second name") {
    fs::create_hard_link(scratch.at("precious"), scratch.at("lock"));
  }
  SECTION("a pipe") {
    REQUIRE(::mkfifo(scratch.at("lock").c_str(), 0600) == 0);
  }
  CHECK_FALSE(try_lock(folder, "lock"));
  CHECK(errno == ELOOP);
  CHECK(cxxrun::testing::read_file(scratch.at("precious")) == "as it was");
}
