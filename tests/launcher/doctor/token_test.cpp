#include <cstdlib>
#include <filesystem>

#include "launcher/doctor/doctor.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::doctor;  // NOLINT(google-build-using-namespace): the unit under test
namespace os = cxxrun::os;

TEST_CASE("token: who finds it shares the directory, and sees that it is locked, for as long as it is", "[process]") {
  std::string dir = "/tmp/cxxrun_token_XXXXXX";
  REQUIRE(mkdtemp(dir.data()) != nullptr);
  {
    os::Caretaker const caretaker;
    Facts first;
    auto token = show_token(dir + "/token", caretaker, first);
    CHECK(first == Facts{{"fs.shared", "1"}, {"fs.locked", "1"}});
    Facts other;
    look_for_token(dir + "/token", other);
    CHECK(other == Facts{{"fs.shared", "1"}, {"fs.lock_seen", "1"}});
    token = os::UniqueFd();
    look_for_token(dir + "/token", other);
    CHECK(other == Facts{{"fs.shared", "1"}, {"fs.lock_seen", "0"}});  // as where locks are each node's own
    look_for_token(dir + "/elsewhere", other);
    CHECK(other == Facts{{"fs.shared", "0"}, {"fs.lock_seen", "0"}});
    CHECK_FALSE(show_token(dir + "/nowhere/token", caretaker, first));
    CHECK(first == Facts{{"fs.shared", "0"}, {"fs.locked", "0"}});
  }
  CHECK(std::filesystem::remove(dir));  // nothing was left in it
}
