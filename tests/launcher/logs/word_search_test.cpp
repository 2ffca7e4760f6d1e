#include "launcher/logs/word_search.hpp"

#include <array>
#include <random>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using cxxrun::launcher::WordSearch;

namespace {

using Found = WordSearch::Found;

constexpr std::array<std::string_view, 12> kWords{"abca", "abcab", "bcaac", "cccc",       "acbacb", "bbabb",
                                                  "aaaa", "abca",  "babab", "\xff\x80zz", "aab\n",  "ab ba"};

/// As it is meant, without any art.
std::optional<Found> plainly(std::string_view text, std::size_t from) {
  for (auto at = from; at < text.size(); ++at) {
    for (std::size_t word = 0; word < kWords.size(); ++word) {
      if (text.substr(at).starts_with(kWords.at(word))) {
        return Found{at, word};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("word_search: both ways find what a plain search finds, at any place and up to the last byte", "[unit]") {
  std::mt19937 random(7);
  std::string_view const bytes = "abc\n z\xff\x80";
  for (auto const way : {WordSearch::Way::best, WordSearch::Way::portable}) {
    WordSearch const search(kWords, way);
    std::size_t found = 0;
    for (int round = 0; round < 3000; ++round) {
      std::string text(random() % 150, 'a');
      for (auto& c : text) {
        c = bytes[random() % (round % 2 == 0 ? 3 : bytes.size())];
      }
      std::vector<char> const exact(text.begin(), text.end());  // a sanitizer sees who reads one byte more
      for (std::size_t from = 0; from <= text.size() + 1; from += 1 + random() % 40) {
        auto const there = search.find({exact.data(), exact.size()}, from);
        found += there ? 1 : 0;
        REQUIRE(there == plainly(text, from));
      }
    }
    CHECK(found > 1000);
  }
}

TEST_CASE("word_search: bytes behind the text are none of it", "[unit]") {
  for (auto const way : {WordSearch::Way::best, WordSearch::Way::portable}) {
    WordSearch const search(kWords, way);
    std::string_view const text = "................................cccc............abca";
    CHECK(search.find(text) == Found{32, 3});
    CHECK(search.find(text.substr(0, 35)) == std::nullopt);
    CHECK(search.find(text, 33) == Found{48, 0});
    CHECK(search.find(text.substr(0, 51), 33) == std::nullopt);
    CHECK(search.find("") == std::nullopt);
    CHECK(search.find(std::string(200, '\0')) == std::nullopt);
  }
}
