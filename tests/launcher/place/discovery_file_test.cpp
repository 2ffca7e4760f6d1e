#include "launcher/place/discovery_file.hpp"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test

namespace {

/// A directory of its own for each test.
struct Directory {
  Directory() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Directory() { std::filesystem::remove_all(path); }
  Directory(Directory const&) = delete;
  Directory& operator=(Directory const&) = delete;

  /// Of an agent that was elected by this generation; 0: the first one.
  [[nodiscard]] Discovery by(std::uint64_t generation) const {
    Discovery discovery;
    discovery.job = "12";
    discovery.run_id = "12.0";
    discovery.addresses = {"node" + std::to_string(generation)};
    discovery.port = 20123;
    discovery.nonce = "nonce" + std::to_string(generation);
    discovery.key = "k";
    discovery.pid = 4711;
    discovery.elected = {generation, generation == 0 ? 0U : 2U, 0};
    discovery.path = path + "/d/lab-12.0";
    return discovery;
  }
  void put(std::string const& text) const {
    std::filesystem::create_directories(path + "/d");
    std::ofstream(by(0).path) << text;
    chmod(by(0).path.c_str(), 0600);
  }

  std::string path = (std::filesystem::temp_directory_path() / "cxxrun-discovery-XXXXXX").string();
};

}  // namespace

TEST_CASE("discovery file: of two agents that announce the one stays that was elected later, whoever writes last",
          "[process]") {
  Directory const dir;
  for (auto const& order : {std::vector<int>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 2, 1}}) {
    dir.put("");
    for (int const generation : order) {
      REQUIRE(write_discovery(dir.by(static_cast<std::uint64_t>(generation))));
    }
    auto const there = read_discovery(dir.by(0).path);
    REQUIRE(there);
    CHECK(*there == dir.by(2));
  }
  auto const entries = std::filesystem::directory_iterator(dir.path + "/d");
  CHECK(std::distance(begin(entries), end(entries)) == 1);  // nothing else is left
}

TEST_CASE("discovery file: what is no file of this user's, or holds something else, is replaced", "[process]") {
  Directory const dir;
  auto const of_another_run = [&] {
    auto discovery = dir.by(9);
    discovery.run_id = "12.7";
    return discovery_text(discovery);
  };
  for (auto const& text :
       {std::string(), std::string("{"), discovery_text(dir.by(9)).substr(0, 50), of_another_run()}) {
    dir.put(text);
    REQUIRE(write_discovery(dir.by(1)));
    CHECK(read_discovery(dir.by(1).path).value() == dir.by(1));
  }
  chmod(dir.by(1).path.c_str(), 0644);
  CHECK_FALSE(read_discovery(dir.by(1).path));
  REQUIRE(write_discovery(dir.by(1)));
  CHECK(read_discovery(dir.by(1).path).value() == dir.by(1));
}

TEST_CASE("discovery file: the job to join is found by what can be read, and what cannot is named", "[process]") {
  Directory const dir;
  auto const find = [&] { return find_job(dir.path + "/d", {"12", ""}, {{"SLURM_CLUSTER_NAME", "lab"}}); };
  REQUIRE_FALSE(find());
  CHECK(find().error().code == Errc::closed);
  dir.put("{");
  REQUIRE_FALSE(find());
  CHECK(find().error().code == Errc::closed);
  CHECK(find().error().context.find(dir.by(0).path + " is no discovery file of cxxrun") != std::string::npos);
  REQUIRE(write_discovery(dir.by(1)));
  CHECK(find().value() == dir.by(1));
}

TEST_CASE("discovery file: a directory that cannot be written is named with the variable for another one",
          "[process]") {
  Directory const dir;
  std::ofstream(dir.path + "/d") << "";
  auto const written = write_discovery(dir.by(1));
  REQUIRE_FALSE(written);
  CHECK(written.error().context.find(dir.by(1).path) != std::string::npos);
  CHECK(written.error().context.find("CXXRUN_DISCOVERY_DIR") != std::string::npos);
}
