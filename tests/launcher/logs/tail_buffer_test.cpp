#include "launcher/logs/tail_buffer.hpp"

#include "tests/support/catch.hpp"

using cxxrun::launcher::kTailBytes;
using cxxrun::launcher::last_lines;
using cxxrun::launcher::TailBuffer;

namespace {

std::string numbered(int from, int to) {
  std::string text;
  for (int i = from; i <= to; ++i) {
    text += "line " + std::to_string(i) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("tail_buffer: a short stream is kept as it is", "[unit]") {
  TailBuffer tail;
  CHECK(tail.text().empty());
  tail.feed("a\nb");
  CHECK(tail.text() == "a\nb");
}

TEST_CASE("tail_buffer: twenty lines are kept, an unfinished one counted", "[unit]") {
  CHECK(last_lines(numbered(1, 30)) == numbered(11, 30));
  CHECK(last_lines(numbered(1, 20)) == numbered(1, 20));
  CHECK(last_lines(numbered(1, 30) + "unfinished") == numbered(12, 30) + "unfinished");
  CHECK(last_lines("\n\n") == "\n\n");
}

TEST_CASE("tail_buffer: the result does not depend on the chunks of a flood", "[unit]") {
  std::string const flood = numbered(1, 20000);

  for (std::size_t const size : {1UL, 100UL, 8191UL, 8192UL, 8193UL, 100000UL}) {
    TailBuffer tail;
    for (std::size_t at = 0; at < flood.size(); at += size) {
      tail.feed(std::string_view(flood).substr(at, size));
    }
    CHECK(tail.text() == numbered(19981, 20000));
  }
}

TEST_CASE("tail_buffer: the byte limit drops whole lines", "[unit]") {
  std::string const line(1000, 'x');
  std::string text;
  for (int i = 0; i < 15; ++i) {
    text += line + "\n";
  }

  TailBuffer tail;
  tail.feed(text);
  CHECK(tail.text().size() == 8 * (line.size() + 1));
}

TEST_CASE("tail_buffer: a line that begins exactly at the byte limit is kept", "[unit]") {
  std::string const last = std::string(kTailBytes - 1, 'b') + "\n";
  CHECK(last_lines("aaaa\n" + last) == last);
}

TEST_CASE("tail_buffer: of one endless line the end is kept", "[unit]") {
  TailBuffer tail;
  for (int i = 0; i < 100; ++i) {
    tail.feed(std::string(1000, static_cast<char>('a' + i % 26)));
  }
  CHECK(tail.text().size() == kTailBytes);
  CHECK(tail.text().back() == 'a' + 99 % 26);
}
