#include "src/base/wire/frame.hpp"

#include "tests/support/catch.hpp"

using cxxrun::wire::frame;
using cxxrun::wire::FrameReader;

TEST_CASE("frame: any split of the bytes gives the same payloads", "[unit]") {
  std::string const bytes = frame("one") + frame("") + frame(std::string(300, 'x'));
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    FrameReader reader;
    std::vector<std::string> seen;
    for (auto const& part : {bytes.substr(0, cut), bytes.substr(cut)}) {
      reader.feed(part);
      for (auto next = reader.next(); next && next->has_value(); next = reader.next()) {
        seen.push_back(**next);
      }
    }
    REQUIRE(seen == std::vector<std::string>{"one", "", std::string(300, 'x')});
  }
}

TEST_CASE("frame: the header is the length in network order", "[unit]") {
  CHECK(frame("abc") == std::string("\0\0\0\3abc", 7));
}

TEST_CASE("frame: an announced length beyond the bound is refused before it is allocated", "[unit]") {
  FrameReader reader;
  reader.feed(std::string("\x00\x10\x00\x01", 4));
  auto const next = reader.next();
  REQUIRE_FALSE(next);
  CHECK(next.error().code == cxxrun::Errc::protocol);

  FrameReader largest;
  largest.feed(frame(std::string(cxxrun::wire::kMaxFrame, 'x')));
  auto const whole = largest.next();
  REQUIRE(whole);
  CHECK((*whole)->size() == cxxrun::wire::kMaxFrame);
}
