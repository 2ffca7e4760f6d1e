#include "launcher/logs/rotation.hpp"

#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test

TEST_CASE("rotation: a file ends behind a line", "[unit]") {
  CHECK(fitting({0, false}, "a\nb\n", 4) == 4);
  CHECK(fitting({0, false}, "a\nbc\n", 4) == 2);
  CHECK(fitting({4, false}, "a\n", 4) == 0);
  CHECK(fitting({3, false}, "ab\n", 4) == 0);
  CHECK(fitting({3, true}, "ab\ncd", 4) == 3);       // the line that has begun is completed
  CHECK(fitting({4, true}, "ab", 4) == 2);           // and may take more than there is room for
  CHECK(fitting({0, false}, "abcdefg\nh", 4) == 8);  // a line that is longer than a file
  CHECK(fitting({9, false}, "", 4) == 0);
}

TEST_CASE("rotation: whatever the pieces, nothing is lost, no line cut, and a file larger only for one line",
          "[unit]") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::uint64_t const most = 1 + random() % 20;
    std::string all;
    std::vector<std::string> files(1);
    for (int piece = 0; piece < 40; ++piece) {
      std::string bytes;
      for (auto left = random() % 15; left > 0; --left) {
        bytes += random() % 4 == 0 ? '\n' : 'x';
      }
      all += bytes;
      for (std::string_view rest = bytes; !rest.empty();) {
        auto& file = files.back();
        auto const size = fitting({file.size(), !file.empty() && file.back() != '\n'}, rest, most);
        REQUIRE((size > 0 || !file.empty()));
        file += rest.substr(0, size);
        rest.remove_prefix(size);
        if (!rest.empty()) {
          REQUIRE(file.back() == '\n');
          REQUIRE((file.size() <= most || file.find('\n', most > 0 ? most - 1 : 0) == file.size() - 1));
          files.emplace_back();
        }
      }
    }
    std::string joined;
    for (auto const& file : files) {
      joined += file;
    }
    REQUIRE(joined == all);
  }
}
