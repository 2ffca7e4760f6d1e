// Checkpoint: attacks by another user of the same node, in directories of every mode.
#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/checkpoint_scratch.hpp"
#include "tests/support/fixtures.hpp"
#include "tests/support/ranks.hpp"

using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using cxxrun::Checkpoint;
using cxxrun::Errc;
namespace fs = std::filesystem;

namespace {

constexpr uid_t kVictim = 1500, kAttacker = 65534;
constexpr std::uint64_t kTries = 50;

bool is_root() {
  if (geteuid() != 0) {
    WARN("skipped: only root can be two users");
  }
  return geteuid() == 0;
}

/// A directory of the victim in a place that others can reach.
std::string make_victims(Scratch const& scratch, mode_t mode) {
  std::string const path = scratch.at("ckpt");
  fs::create_directory(path);
  chmod(scratch.path.c_str(), 0755);
  REQUIRE(chown(path.c_str(), kVictim, kVictim) == 0);
  chmod(path.c_str(), mode);
  return path;
}

/// The result for a user who makes a checkpoint in this directory.
std::string opened_by(uid_t user, std::string const& directory) {
  return run_ranks(1,
                   [&](int) {
                     if (seteuid(user) != 0) {
                       return std::string("seteuid failed");
                     }
                     return error_of([&] { Checkpoint({.directory = directory, .model = "m"}, 1); }).context;
                   })[0]
      .said;
}

/// Locks the files that writers lock, if it can open them, until the file `end` exists; returns how many.
std::size_t lock_all(std::string const& directory, std::string const& end) {
  std::map<std::string, int> had;
  for (std::uint64_t step = 1; !fs::exists(end);) {
    for (auto const& name :
         {std::string("lock"), std::string("lock.tmp"), step_file(step) + ".tmp0", step_file(step + 1) + ".tmp0"}) {
      int const fd = had.contains(name) ? -1 : open((directory + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
      struct stat named {};
      struct stat facts {};
      if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && fstat(fd, &facts) == 0 &&
          stat((directory + "/" + name).c_str(), &named) == 0 && named.st_ino == facts.st_ino) {  // not published yet
        had[name] = fd;
      } else if (fd >= 0) {
        close(fd);
      }
    }
    step += fs::exists(directory + "/" + step_file(step)) ? 1 : 0;
  }
  return had.size();
}

}  // namespace

TEST_CASE("checkpoint: whoever may read the directory can lock nothing that writers lock", "[process]") {
  if (!is_root()) {
    return;
  }
  auto const [mask, shared] = GENERATE(std::pair<mode_t, mode_t>{022, 0644}, std::pair<mode_t, mode_t>{0, 0666},
                                       std::pair<mode_t, mode_t>{002, 0664});
  Scratch const scratch;
  chmod(scratch.path.c_str(), 01777);
  std::string const directory = scratch.at("ckpt"), end = scratch.at("end");
  auto const ends = run_ranks(2, [&](int rank) -> std::string {
    umask(mask);
    if (seteuid(rank == 0 ? kVictim : kAttacker) != 0) {
      return "seteuid failed";
    }
    if (rank == 1) {
      return std::to_string(lock_all(directory, end));
    }
    auto const error = error_of([&] {
      Checkpoint checkpoint({.directory = directory, .model = "m", .keep = int{kTries}}, 1);
      for (std::uint64_t step = 1; step <= kTries; ++step) {
        save(checkpoint, step);
      }
    });
    write_file(end, "");
    return error.message();
  });
  CHECK(ends[0].said == "");
  CHECK(ends[1].said == "0");
  for (std::uint64_t step = 1; step <= kTries; ++step) {
    REQUIRE(mode_of(directory + "/" + step_file(step)) == shared);
  }
  CHECK(mode_of(directory + "/lock") == 0600);
}

TEST_CASE("checkpoint: a lock that a stranger has holds nobody up", "[process]") {
  if (!is_root()) {
    return;
  }
  Scratch const scratch;
  auto const ckpt = make_victims(scratch, 01777), lock = ckpt + "/lock";
  uid_t const owner = GENERATE(kVictim, kAttacker);  // left by an earlier release, or planted
  write_file(lock, "pid 1 on node1");
  chmod(lock.c_str(), 0644);
  REQUIRE(chown(lock.c_str(), owner, owner) == 0);
  int const held = open(lock.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(flock(held, LOCK_SH) == 0);
  CHECK(opened_by(kVictim, ckpt) == "");
  close(held);
}

TEST_CASE("checkpoint: whose directory others may have made beforehand is refused by name", "[process]") {
  if (!is_root()) {
    return;
  }
  mode_t const around = GENERATE(01777, 0777, 02775);
  mode_t const mode = GENERATE(0777, 02777, 01777);
  Scratch const scratch;
  std::string const at = scratch.at("place/ckpt"), below = at + "/below";
  fs::create_directories(below);
  for (auto const& each : {at, below}) {
    REQUIRE(chown(each.c_str(), kAttacker, kAttacker) == 0);
    chmod(each.c_str(), mode);
  }
  fs::create_directory(scratch.at("other"));
  REQUIRE(chown(scratch.at("other").c_str(), kVictim, kVictim) == 0);
  fs::create_directory_symlink(scratch.at("other"), scratch.at("place/link"));
  REQUIRE(lchown(scratch.at("place/link").c_str(), kAttacker, kAttacker) == 0);
  chmod(scratch.path.c_str(), 0755);
  REQUIRE(chown(scratch.at("place").c_str(), 0, kVictim) == 0);
  chmod(scratch.at("place").c_str(), around);
  std::string const refusal = " of uid 65534, who may have made it beforehand: name a directory of your own";
  std::string const whose = at + " belongs to uid 65534, who may have made it beforehand: name a directory of your own";
  CHECK(has(opened_by(kVictim, at), whose));
  CHECK(has(opened_by(kVictim, below), whose));
  CHECK(has(opened_by(kVictim, scratch.at("place/link")), scratch.at("place/link") + " is a link" + refusal));
  CHECK(files_in(at) == std::set<std::string>{"below"});
}

TEST_CASE("checkpoint: what the owner of the place has made is used, and what is our own", "[process]") {
  if (!is_root()) {
    return;
  }
  Scratch const scratch;
  fs::create_directories(scratch.at("project/ckpt"));
  chmod(scratch.path.c_str(), 0755);
  for (auto const* const name : {"project", "project/ckpt"}) {
    REQUIRE(chown(scratch.at(name).c_str(), 1700, kVictim) == 0);
    chmod(scratch.at(name).c_str(), 02777);
  }
  CHECK(opened_by(kVictim, scratch.at("project/ckpt")) == "");
  CHECK(opened_by(kVictim, scratch.at("project/ckpt/new")) == "");
  fs::create_directory(scratch.at("project/colleague"));
  REQUIRE(chown(scratch.at("project/colleague").c_str(), kAttacker, kVictim) == 0);
  chmod(scratch.at("project/colleague").c_str(), 02777);
  CHECK(opened_by(kVictim, scratch.at("project/colleague/new")) == "");
  CHECK(opened_by(kVictim, scratch.at("project/colleague/new")) == "");
}

TEST_CASE("checkpoint: a stranger's claim and links to checkpoints are not believed", "[process]") {
  if (!is_root()) {
    return;
  }
  Scratch const scratch;
  auto const ckpt = make_victims(scratch, 02777), claim = ckpt + "/generation";
  write_file(claim, "generation 99 of run \n");
  REQUIRE(chown(claim.c_str(), kAttacker, kAttacker) == 0);
  auto const ends = run_ranks(1, [&](int) -> std::string {
    if (seteuid(kVictim) != 0) {
      return "seteuid failed";
    }
    Checkpoint other({.directory = ckpt + "/other", .model = "m"}, 1);
    save(other, 9);
    Checkpoint checkpoint({.directory = ckpt, .model = "m"}, 1);
    save(checkpoint, 1);
    fs::create_symlink("other/" + step_file(9), ckpt + "/" + step_file(9));
    auto const loaded = checkpoint.latest();
    return std::to_string(loaded->step) + (loaded->skipped.empty() ? "" : loaded->skipped[0]);
  });
  CHECK(has(ends[0].said, "1" + ckpt + "/" + step_file(9) + ": is a symbolic link or not a regular file"));
}
