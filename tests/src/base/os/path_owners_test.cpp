#include "src/base/os/path_owners.hpp"

#include <cerrno>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/acl.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/checkpoint_scratch.hpp"

using namespace cxxrun::os;  // NOLINT(google-build-using-namespace)
using cxxrun::test::Scratch;
namespace fs = std::filesystem;

namespace {

constexpr uid_t kUs = 1500, kOther = 65534, kChief = 1700;

std::string strange(std::vector<PathStep> const& steps) {
  auto const* const step = first_strange(steps, kUs);
  return step != nullptr ? step->path : "";
}
std::string loose(std::vector<PathStep> const& steps) {
  auto const* const step = first_loose(steps, kUs);
  return step != nullptr ? step->path : "";
}

PathStep const kTmp{"/tmp", 0, false, 0, false, false};
PathStep const kProject{"/project", kChief, false, 0, false, false};  // 2775, its group writes

}  // namespace

TEST_CASE("path owners: a directory that a stranger has made beforehand is strange", "[process]") {
  CHECK(strange({kTmp, {"/tmp/ckpt", kUs, false, 0, true, true}}) == "");
  CHECK(strange({kTmp, {"/tmp/ckpt", 0, false, 0, true, true}}) == "");
  CHECK(strange({kTmp, {"/tmp/ckpt", kOther, false, 0, true, true}}) == "/tmp/ckpt");
  CHECK(strange({kTmp, {"/tmp/ckpt", kOther, false, 0, true, false}}) == "/tmp/ckpt");
  CHECK(
      strange({kTmp, {"/tmp/a", kOther, false, 0, true, true}, {"/tmp/a/ckpt", kOther, false, kOther, false, false}}) ==
      "/tmp/a");
  CHECK(strange({kTmp, {"/tmp/link", kOther, true, 0, true, true}, {"/home", 0, false, 0, false, false}}) ==
        "/tmp/link");
}

TEST_CASE(
    "path owners: an own directory in one of a colleague's is no stranger's, however it is reached but by a link") {
  PathStep const colleagues{"/project/a", kOther, false, kChief, true, false};
  CHECK(strange({kProject, colleagues, {"/project/a/ours", kUs, false, kOther, true, false}}) == "");
  CHECK(strange({kProject, colleagues, {"/project/a/theirs", kOther, false, kOther, true, false}}) == "/project/a");
  CHECK(strange({kProject,
                 {"/project/link", kOther, true, kChief, true, false},
                 {"/project/ours", kUs, false, kChief, true, false}}) == "/project/link");
}

TEST_CASE("path owners: who has been given a directory may have made what is in it", "[process]") {
  PathStep const in_project{"/project/ckpt", kChief, false, kChief, true, false};
  CHECK(strange({kProject}) == "");
  CHECK(strange({kProject, in_project}) == "");
  CHECK(strange({kProject, {"/project/link", kChief, true, kChief, true, false}}) == "");
  CHECK(strange({kProject, {"/project/ckpt", kOther, false, kChief, true, false}}) == "/project/ckpt");
  CHECK(strange({kProject, {"/project/ckpt", kOther, false, kChief, false, false}}) == "");  // the chief made it
}

TEST_CASE("path owners: what others may rename is loose, and so is what another user owns the way to", "[process]") {
  PathStep const home{"/home", 0, false, 0, false, false}, own{"/home/us", kUs, false, 0, false, false};
  CHECK(loose({home, own, {"/home/us/fence", kUs, false, kUs, false, false}}) == "");
  CHECK(loose({kTmp, {"/tmp/fence", kUs, false, 0, true, true}}) == "");
  CHECK(loose({kTmp, {"/tmp/fence", kOther, false, 0, true, true}}) == "/tmp/fence");
  CHECK(loose({kTmp, {"/tmp/fence", kUs, false, 0, true, false}}) == "/tmp/fence");
  CHECK(loose({home, own, {"/home/us/open", kUs, false, kUs, true, false}}) == "/home/us/open");
  CHECK(loose({kProject, {"/project/fence", kUs, false, kChief, false, false}}) == "/project/fence");
  CHECK(loose({kTmp, {"/tmp/link", kUs, true, 0, true, true}, own}) == "");
}

TEST_CASE("path owners: the walk goes through links, and makes the last directory alone", "[process]") {
  Scratch const scratch;
  fs::create_directories(scratch.at("a/b"));
  fs::create_directory_symlink("a", scratch.at("link"));
  fs::create_directory_symlink(scratch.at("link/b/.."), scratch.at("far"));
  fs::create_directory_symlink("loop", scratch.at("loop"));
  cxxrun::test::write_file(scratch.at("file"), "");
  auto const through = walk(scratch.at("far/b"), false);
  REQUIRE(through.folder);
  REQUIRE(through.steps.size() >= 4);
  CHECK(through.steps.back().path == scratch.at("a/b"));
  CHECK(std::count_if(through.steps.begin(), through.steps.end(), [](auto const& step) { return step.is_link; }) == 2);
  struct stat facts {};
  struct stat same {};
  CHECK(::fstat(through.folder.get(), &facts) == 0);
  CHECK(::stat(scratch.at("a/b").c_str(), &same) == 0);
  CHECK(facts.st_ino == same.st_ino);

  auto const made = walk(scratch.at("link/new"), true);
  CHECK(made.folder);
  CHECK(made.made);
  CHECK(fs::is_directory(scratch.at("a/new")));
  CHECK_FALSE(walk(scratch.at("link/new"), true).made);
  auto const why_not = [](std::string const& path) { return walk(path, true).folder ? 0 : errno; };
  CHECK(why_not(scratch.at("no/new")) == ENOENT);
  CHECK(why_not(scratch.at("loop/new")) == ELOOP);
  CHECK(why_not(scratch.at("file/new")) == ENOTDIR);
  CHECK(why_not(scratch.at("file")) == ENOTDIR);
  CHECK(walk("/", false).folder);
  CHECK(walk(".", false).folder);
}

TEST_CASE("path owners: a directory with an ACL is open", "[process]") {
  Scratch const scratch;
  fs::create_directories(scratch.at("a/b"));
  REQUIRE(::chmod(scratch.at("a").c_str(), 0775) == 0);
  auto const found = [&] {
    auto const walked = walk(scratch.at("a/b"), false);
    return first_loose(walked.steps, ::geteuid()) != nullptr;
  };
  if (found() || !cxxrun::test::let_write(scratch.at("a"), kOther)) {
    WARN("skipped: this user has no group of its own, or the file system no ACLs");
    return;
  }
  CHECK(found());
}
