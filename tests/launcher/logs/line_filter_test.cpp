#include "launcher/logs/line_filter.hpp"

#include "tests/support/catch.hpp"

using cxxrun::launcher::kLongestLine;
using cxxrun::launcher::LineFilter;

namespace {

/// What is left when `bytes` arrive in chunks of `size`.
std::string in_chunks(std::string_view bytes, std::size_t size, std::vector<std::string> const& words) {
  LineFilter filter("[n:0] ", words);
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    filter.feed(bytes.substr(at, size), out);
  }
  filter.feed("\n", out);
  return out;
}

}  // namespace

TEST_CASE("line_filter: lines with any of the words pass, whole and prefixed, however the bytes come", "[unit]") {
  std::string const bytes = "loss 3\nnothing\n\nan error\r\nloss and error\nlast loss";
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    CHECK(in_chunks(bytes, size, {"loss", "error"}) ==
          "[n:0] loss 3\n[n:0] an error\r\n[n:0] loss and error\n[n:0] last loss\n");
    CHECK(in_chunks(bytes, size, {"absent"}).empty());
  }
}

TEST_CASE("line_filter: a word that is in the prefix alone is not in the line", "[unit]") {
  CHECK(in_chunks("a\nn:0\n", 3, {"n:0"}) == "[n:0] n:0\n");
}

TEST_CASE("line_filter: words that match every line make a copy, zeros and broken UTF-8 included", "[unit]") {
  std::string const bytes("a\0\xff\nb\0\n", 7);
  CHECK(in_chunks(bytes, 2, {"a", "b"}) == std::string("[n:0] a\0\xff\n[n:0] b\0\n", 19));
}

TEST_CASE("line_filter: a line without an end is looked at in pieces, so it takes no more memory than a piece",
          "[unit]") {
  std::string const flood(kLongestLine + 5, 'x');
  LineFilter filter("p ", {"xx"});
  std::string out;
  filter.feed(flood, out);
  CHECK(out.size() == kLongestLine + 3);
  filter.feed("\n", out);
  CHECK(out.size() == kLongestLine + 3 + 8);
}
