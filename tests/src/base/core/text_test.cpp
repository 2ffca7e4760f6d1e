#include "src/base/core/text.hpp"

#include "tests/support/catch.hpp"

using cxxrun::join_first;
using cxxrun::name_ranks;
using cxxrun::nearest_word;
using cxxrun::number_list;
using cxxrun::parse_unsigned;
using cxxrun::split;

TEST_CASE("text: what is too much for a line is counted", "[unit]") {
  CHECK(join_first(2, {}).empty());
  CHECK(join_first(2, {"a", "b"}) == "a, b");
  CHECK(join_first(2, {"a", "b", "c", "d"}) == "a, b and 2 more");
}

TEST_CASE("text: numbers in any order are ranges", "[unit]") {
  CHECK(number_list({}).empty());
  CHECK(number_list({3}) == "3");
  CHECK(number_list({9, 0, 2, 1, 7, 8}) == "0-2,7-9");
  CHECK(number_list({4, 4, 5, 7, 7}, ", ") == "4-5, 7");
}

TEST_CASE("text: a number is digits only and inside its range", "[unit]") {
  CHECK(parse_unsigned("0", 0, 9).value() == 0);
  CHECK(parse_unsigned("007", 0, 9).value() == 7);
  for (char const* const bad : {"", " 1", "1 ", "+1", "-1", "1.0", "0x1", "10", "99999999999999999999999"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_unsigned(bad, 0, 9).has_value());
  }
}

TEST_CASE("text: the error of a number names its range", "[unit]") {
  CHECK(parse_unsigned("70000", 1, 65535).error().context == "a number from 1 to 65535 is expected");
}

TEST_CASE("text: splitting keeps empty parts", "[unit]") {
  CHECK(split("a,,b,", ',') == std::vector<std::string>{"a", "", "b", ""});
  CHECK(split("", ',') == std::vector<std::string>{""});
}

TEST_CASE("text: the nearest word is near, or none", "[unit]") {
  std::vector<std::string> const words{"nnodes", "nproc-per-node", "role"};

  CHECK(nearest_word("nnode", words) == "nnodes");
  CHECK(nearest_word("nprocs-per-node", words) == "nproc-per-node");
  CHECK(nearest_word("roel", {"role", "tee"}) == std::nullopt);
  CHECK(nearest_word("xyzzy", words) == std::nullopt);
  CHECK(nearest_word("", words) == std::nullopt);
}

TEST_CASE("text: quoting survives a shell and leaves plain words alone", "[unit]") {
  CHECK(cxxrun::shell_quote("./train-1.py") == "./train-1.py");
  CHECK(cxxrun::shell_quote("a b") == "'a b'");
  CHECK(cxxrun::shell_quote("it's") == "'it'\\''s'");
  CHECK(cxxrun::shell_quote("") == "''");
}

TEST_CASE("text: printable text is one line of bounded length", "[unit]") {
  CHECK(cxxrun::printable("a\nb\x1b[0m") == "a?b?[0m");
  CHECK(cxxrun::printable("abcdef", 3) == "abc...");
  CHECK(cxxrun::printable("\xc2\x9b"
                          "31m caf\xc3\xa9 \xc2\xa7 \x7f \xc2") == "?31m caf\xc3\xa9 \xc2\xa7 ? \xc2");
}

TEST_CASE("text: printable lines have their breaks and tabs, no colours and no other escape", "[unit]") {
  CHECK(cxxrun::printable_lines("\x1b[1;31mError\x1b[0m:\n\tat\rx\n") == "Error:\n\tat?x\n");
  CHECK(cxxrun::printable_lines("\x1b[2J\x1b[1;1H\x1b]0;title\x07") == "?[2J?[1;1H?]0;title?");
  CHECK(cxxrun::printable_lines("\x1b[31") == "?[31");
  CHECK(cxxrun::printable_lines("").empty());
}

TEST_CASE("text: seconds are shown without needless decimals", "[unit]") {
  using cxxrun::Millis;
  CHECK(cxxrun::seconds_text(Millis{60'000}) == "60 s");
  CHECK(cxxrun::seconds_text(Millis{1'050}) == "1.05 s");
  CHECK(cxxrun::seconds_text(Millis{5}) == "0.005 s");
  CHECK(cxxrun::elapsed_text(Millis{99}) == "0.0 s");
  CHECK(cxxrun::elapsed_text(Millis{59'999}) == "59.9 s");
  CHECK(cxxrun::elapsed_text(Millis{60'000}) == "0:01:00 h");
  CHECK(cxxrun::elapsed_text(Millis{100'000'000}) == "27:46:40 h");
}

TEST_CASE("text: every occurrence is replaced, also adjacent ones", "[unit]") {
  CHECK(cxxrun::replace_all("xxax", "x", "yx") == "yxyxayx");
  CHECK(cxxrun::replace_all("abc", "", "z") == "abc");
}

TEST_CASE("ranks are named by number, eight at most") {
  CHECK(name_ranks({2}) == "rank 2");
  CHECK(name_ranks({2, 3}) == "ranks 2 and 3");
  CHECK(name_ranks({1, 2, 5}) == "ranks 1, 2 and 5");
  CHECK(name_ranks({1, 2, 3, 4, 5, 6, 7, 8}) == "ranks 1, 2, 3, 4, 5, 6, 7 and 8");
  CHECK(name_ranks({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) == "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
}
