#include "src/base/os/folder.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/os/fd.hpp"
#include "tests/support/acl.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/checkpoint_scratch.hpp"
#include "tests/support/fixtures.hpp"
#include "tests/support/ranks.hpp"

using namespace cxxrun::os;  // NOLINT(google-build-using-namespace)
using cxxrun::test::mode_of;
using cxxrun::test::Scratch;
using cxxrun::test::write_file;
using cxxrun::testing::read_file;
namespace fs = std::filesystem;

namespace {

/// Runs `act` as a user other than root, in a process of its own; "": it succeeded.
template <class Act>
std::string as_user(uid_t user, Act const& act) {
  return cxxrun::test::run_ranks(1,
                                 [&](int) {
                                   if (::seteuid(user) != 0) {
                                     return std::string("seteuid failed");
                                   }
                                   return std::string(act());
                                 })[0]
      .said;
}

struct Umask {
  explicit Umask(mode_t mask) : before(::umask(mask)) {}
  Umask(Umask const&) = delete;
  Umask& operator=(Umask const&) = delete;
  ~Umask() { ::umask(before); }
  mode_t before;
};

}  // namespace

TEST_CASE("folder: what replaces a file has the umask's mode, and before that it is open to nobody else", "[process]") {
  Scratch const scratch;
  auto const [mask, sharing] = GENERATE(std::pair<mode_t, mode_t>{022, 0644}, std::pair<mode_t, mode_t>{0, 0666},
                                        std::pair<mode_t, mode_t>{002, 0664}, std::pair<mode_t, mode_t>{077, 0600});
  Umask const set(mask);
  auto const folder = Folder::open(scratch.path);
  {
    auto const file = folder.create("new");
    CHECK(mode_of(scratch.at("new")) == 0600);
    CHECK_FALSE(folder.create("new"));
    CHECK(errno == EEXIST);
    CHECK(folder.publish(file.get(), "new", "published", kForAll));
  }
  CHECK(mode_of(scratch.at("published")) == sharing);
  CHECK(folder.replace("text", "one", kForAll));
  CHECK(folder.replace("text", "two", kForUs));
  CHECK(read_file(scratch.at("text")) == "two");
  CHECK(mode_of(scratch.at("text")) == 0600);
  CHECK(cxxrun::test::files_in(scratch.path) == std::set<std::string>{"published", "text"});
}

TEST_CASE("folder: no link in it leads anywhere, whatever is done", "[process]") {
  Scratch const scratch;
  write_file(scratch.at("precious"), "as it was");
  fs::create_directory(scratch.at("here"));
  fs::create_directory(scratch.at("there"));
  auto const folder = Folder::open(scratch.at("here"));
  std::string const name = scratch.at("here/name");
  SECTION("a link") {
    fs::create_symlink(scratch.at("precious"), name);
    CHECK_FALSE(folder.open_file("name"));
  }
  SECTION("a link to nowhere") {
    fs::create_symlink(scratch.at("nowhere"), name);
  }
  SECTION("a second name") {
    fs::create_hard_link(scratch.at("precious"), name);
  }
  SECTION("a pipe that nobody reads") {
    REQUIRE(::mkfifo(name.c_str(), 0600) == 0);
    CHECK_FALSE(folder.read("name", 10));
  }
  CHECK_FALSE(folder.append_to("name"));
  CHECK_FALSE(folder.create("name"));
  CHECK(folder.replace("name", "ours", kForAll));
  CHECK(read_file(scratch.at("precious")) == "as it was");
  CHECK_FALSE(fs::exists(scratch.at("nowhere")));
  CHECK(read_file(name) == "ours");
  fs::create_directory_symlink(scratch.at("there"), scratch.at("here/dir"));
  CHECK_FALSE(folder.below("dir"));
  CHECK_FALSE(folder.make_below("dir"));
  CHECK(folder.make_below("made"));
  CHECK(folder.make_below("made"));
}

TEST_CASE("folder: it stays the directory that it was when its name is given to another one", "[process]") {
  Scratch const scratch;
  fs::create_directory(scratch.at("run"));
  auto const folder = Folder::open(scratch.at("run"));
  fs::rename(scratch.at("run"), scratch.at("away"));
  fs::create_directory(scratch.at("run"));
  CHECK(folder.replace("text", "ours", kForAll));
  CHECK(fs::exists(scratch.at("away/text")));
  CHECK(fs::is_empty(scratch.at("run")));
}

TEST_CASE("folder: what another user has left there is not believed, and not written to", "[process]") {
  if (::geteuid() != 0) {
    WARN("skipped: only root can become somebody else");
    return;
  }
  Scratch const scratch;
  ::chmod(scratch.path.c_str(), 01777);
  write_file(scratch.at("of-root"), "root's");
  write_file(scratch.at("strangers"), "a stranger's");
  fs::create_directory(scratch.at("dir"));
  for (auto const* const name : {"strangers", "dir"}) {
    REQUIRE(::chown(scratch.at(name).c_str(), 65534, 65534) == 0);
    REQUIRE(::chmod(scratch.at(name).c_str(), 0777) == 0);
  }
  CHECK(as_user(1500, [&] {
          auto const folder = Folder::open(scratch.path);
          return folder.read("strangers", 100)              ? "believed"
                 : errno != EPERM                           ? "another reason"
                 : folder.append_to("strangers")            ? "written to"
                 : folder.below("dir")                      ? "a stranger's directory"
                 : !folder.read("of-root", 100)             ? "root is not believed"
                 : !folder.make_below("own")                ? "the own directory is refused"
                 : folder.replace("strangers", "", kForAll) ? "sticky: cannot be replaced"
                                                            : "";
        }) == "");
  CHECK(cxxrun::test::files_in(scratch.path).size() == 4);  // no temporary is left
}

TEST_CASE("folder: in a directory with an ACL others may write, though it has the user's own group", "[process]") {
  Scratch const scratch;
  struct stat facts {};
  auto const folder = Folder::open(scratch.path);
  auto const is_open = [&] { return ::fstat(folder.get(), &facts) != 0 || others_may_write(folder.get(), facts); };
  CHECK_FALSE(is_open());
  REQUIRE(::chmod(scratch.path.c_str(), 0775) == 0);
  if (is_open() || !cxxrun::test::let_write(scratch.path, 65534)) {
    WARN("skipped: this user has no group of its own, or the file system no ACLs");
    return;
  }
  CHECK(is_open());
  REQUIRE(::chmod(scratch.path.c_str(), 0755) == 0);  // takes from the ACL what it grants
  CHECK_FALSE(is_open());
}

TEST_CASE("folder: of marked directories goes what is one, and what has been put in its place stays", "[process]") {
  Scratch const scratch;
  auto const above = Folder::open(scratch.path);
  std::string const path = scratch.at("name");
  {
    auto const made = above.make_marked("name");
    REQUIRE(made);
    CHECK(mode_of(path) == 0700);
    CHECK(made.create("more"));
  }
  SECTION("nothing has been") {
    CHECK_FALSE(above.make_marked("name"));
    CHECK(errno == EEXIST);
    CHECK(above.remove_marked("name"));
    CHECK_FALSE(fs::exists(path));
    return;
  }
  fs::rename(path, scratch.at("away"));
  fs::create_directories(scratch.at("precious/dir"));
  write_file(scratch.at("precious/file"), "as it was");
  SECTION("a directory of the same user's") {
    fs::rename(scratch.at("precious"), path);
  }
  SECTION("a link to one") {
    fs::create_directory_symlink("precious", path);
  }
  SECTION("a link to one that is marked") {
    write_file(scratch.at("precious/name"), "");
    fs::create_directory_symlink("precious", path);
  }
  SECTION("one with a link in the place of the mark") {
    fs::rename(scratch.at("precious"), path);
    fs::create_symlink("file", path + "/name");
  }
  CHECK_FALSE(above.remove_marked("name"));
  CHECK(read_file(path + "/file") == "as it was");
  CHECK(fs::exists(path + "/dir"));
  CHECK_FALSE(above.make_marked("name"));
}

TEST_CASE("write_path: a link of another user's is not followed, what else is there is replaced", "[process]") {
  Scratch const scratch;
  write_file(scratch.at("precious"), "as it was");
  std::string const path = scratch.at("trace");
  SECTION("nothing") {}
  SECTION("a file") {
    write_file(path, "longer than what comes");
  }
  SECTION("a second name") {
    fs::create_hard_link(scratch.at("precious"), path);
  }
  SECTION("a link of the user's own, to a link") {
    fs::create_directory(scratch.at("dir"));
    fs::create_symlink("dir/link", path);
    fs::create_symlink("../target", scratch.at("dir/link"));
  }
  CHECK(write_path(path, "new"));
  CHECK(read_file(path) == "new");
  CHECK(read_file(scratch.at("precious")) == "as it was");
}

TEST_CASE("write_path: into a pipe, a device or a terminal of this process", "[process]") {
  CHECK(write_path("/dev/null", "text"));
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  CHECK(write_path("/dev/fd/" + std::to_string(ends[1]), "text"));
  ::close(ends[1]);
  CHECK(read_all(ends[0], 100) == "text");
  ::close(ends[0]);
  CHECK_FALSE(write_path("/dev/full", "text"));
  CHECK(errno == ENOSPC);
  CHECK_FALSE(write_path("/nowhere/at/all", "text"));
  CHECK(errno == ENOENT);
}

TEST_CASE("write_path: a named pipe that nobody reads holds nobody up", "[process]") {
  Scratch const scratch;
  std::string const path = scratch.at("pipe");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_FALSE(write_path(path, "text"));
  CHECK(errno == ENXIO);
  UniqueFd const reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  CHECK(write_path(path, "text"));
  CHECK(read_all(reader.get(), 100) == "text");
}

TEST_CASE("write_path: a pipe of another user's is replaced", "[process]") {
  Scratch const scratch;
  std::string const path = scratch.at("pipe");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  UniqueFd const reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (::chown(path.c_str(), 65534, 65534) != 0) {
    WARN("skipped: only root can give a pipe away");
    return;
  }
  CHECK(write_path(path, "new"));
  CHECK(fs::is_regular_file(path));
  CHECK(read_file(path) == "new");
  CHECK(read_all(reader.get(), 100) == "");
}

TEST_CASE("write_path: as another user", "[process]") {
  if (::geteuid() != 0) {
    WARN("skipped: only root can become somebody else");
    return;
  }
  Scratch const scratch;
  ::chmod(scratch.path.c_str(), 0755);
  fs::create_directory(scratch.at("open"));
  ::chmod(scratch.at("open").c_str(), 0777);
  write_file(scratch.at("precious"), "as it was");
  write_file(scratch.at("own"), "as it was");
  REQUIRE(::chown(scratch.at("precious").c_str(), 1500, 1500) == 0);
  REQUIRE(::chown(scratch.at("own").c_str(), 1500, 1500) == 0);
  fs::create_symlink(scratch.at("precious"), scratch.at("open/trace"));
  REQUIRE(::lchown(scratch.at("open/trace").c_str(), 65534, 65534) == 0);
  fs::create_directory(scratch.at("sticky"));
  ::chmod(scratch.at("sticky").c_str(), 01777);
  fs::create_symlink(scratch.at("precious"), scratch.at("sticky/trace"));
  REQUIRE(::lchown(scratch.at("sticky/trace").c_str(), 65534, 65534) == 0);
  CHECK(as_user(1500, [&] {
          return !write_path(scratch.at("open/trace"), "new") ? "a stranger's link is in the way"
                 : !write_path(scratch.at("own"), "new") ? "an own file in a directory that is closed cannot be written"
                 : write_path(scratch.at("sticky/trace"), "new") ? "a stranger's link is followed"
                                                                 : "";
        }) == "");
  CHECK(read_file(scratch.at("open/trace")) == "new");
  CHECK(read_file(scratch.at("precious")) == "as it was");
  CHECK(read_file(scratch.at("own")) == "new");
}
