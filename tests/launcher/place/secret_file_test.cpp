#include "launcher/place/secret_file.hpp"

#include <filesystem>
#include <fstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/trust/secret.hpp"
#include "src/base/os/folder.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
namespace fs = std::filesystem;

namespace {

struct Home {
  Home() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Home() { fs::remove_all(path); }
  Home(Home const&) = delete;
  Home& operator=(Home const&) = delete;

  [[nodiscard]] std::string key() const { return path + "/.cxxrun/key"; }

  std::string path = (fs::temp_directory_path() / "cxxrun-home-XXXXXX").string();
};

}  // namespace

TEST_CASE("secret file: it is made for this user alone, whatever the umask, and stays the same", "[process]") {
  Home const home;
  mode_t const before = ::umask(GENERATE(0, 0002, 0022));
  auto const made = secret_in(home.key(), true);
  ::umask(before);
  REQUIRE(made);
  struct stat facts {};
  REQUIRE(::stat(home.key().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777U) == 0600);
  CHECK(secret_in(home.key(), true)->bytes() == made->bytes());
  CHECK(std::distance(fs::directory_iterator(home.path + "/.cxxrun"), {}) == 1);
}

TEST_CASE("secret file: on a full disk none is made, and none that is empty stays", "[process]") {
  Home const home;
  fs::create_directory(home.path + "/.cxxrun");
  if (::mount("cxxrun-test", (home.path + "/.cxxrun").c_str(), "tmpfs", 0, "size=4k") != 0) {
    WARN("not root, or no mount allowed here: not tested");
    return;
  }
  std::ofstream(home.path + "/.cxxrun/full") << std::string(4096, 'x') << std::flush;
  auto const made = secret_in(home.key(), true);
  auto const left = std::distance(fs::directory_iterator(home.path + "/.cxxrun"), {});
  ::umount((home.path + "/.cxxrun").c_str());
  REQUIRE_FALSE(made);
  CHECK_THAT(made.error().message(), Catch::Contains("cannot make " + home.key()) && Catch::Contains("No space left"));
  CHECK(left == 1);
}

TEST_CASE("secret file: a link in its place is refused, and what it leads to is not read", "[process]") {
  Home const home;
  REQUIRE(secret_in(home.path + "/other", true));
  fs::create_directory(home.path + "/.cxxrun");
  fs::create_symlink(home.path + "/other", home.key());
  auto const read = secret_in(home.key(), true);
  REQUIRE_FALSE(read);
  CHECK_THAT(read.error().message(), Catch::Contains("is no regular file, or a link"));
}

TEST_CASE("secret file: hidden ports need a secret, derived ports, and no file that others may read", "[process]") {
  Home const home;
  std::vector<std::uint16_t> const ports = {22953, 27004};
  auto const transports = *key_transports(Auth::automatic, {}, home.path);
  auto const hidden = hidden_ports_of(transports, ports);
  CHECK(hidden == rendezvous::hidden_ports(*secret_in(home.key(), false), ports));
  CHECK(hidden_ports_of(transports, ports) == hidden);
  CHECK(hidden_ports_of(*key_transports(Auth::munge, {}, home.path), ports).empty());
  CHECK(hidden_ports_of(*key_transports(Auth::none, {}, home.path), ports).empty());
  CHECK(hidden_ports_of(transports, {29400}).empty());
  ::chmod(home.key().c_str(), 0644);
  CHECK(hidden_ports_of(transports, ports).empty());
}
