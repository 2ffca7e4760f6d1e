#include "launcher/logs/line_prefixer.hpp"

#include "tests/support/catch.hpp"

using cxxrun::launcher::LinePrefixer;
using cxxrun::launcher::Return;

namespace {

/// What the console gets when `bytes` arrive in chunks of `size`.
std::string in_chunks(std::string_view bytes, std::size_t size, std::string const& prefix = "[n:0] ") {
  LinePrefixer prefixer(prefix);
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    prefixer.feed(bytes.substr(at, size), out);
  }
  prefixer.flush(out);
  return out;
}

}  // namespace

TEST_CASE("line_prefixer: the result does not depend on how the bytes are cut into chunks", "[unit]") {
  std::string const bytes = "one\n\ntwo\r\nthree and more\nend";
  std::string const expected = "[n:0] one\n[n:0] \n[n:0] two\r\n[n:0] three and more\n[n:0] end\n";

  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    CHECK(in_chunks(bytes, size) == expected);
  }
}

TEST_CASE("line_prefixer: a partial line is held back until its newline comes", "[unit]") {
  LinePrefixer prefixer("p ");
  std::string out;

  prefixer.feed("a\nhalf", out);
  CHECK(out == "p a\n");
  prefixer.feed(" whole\n", out);
  CHECK(out == "p a\np half whole\n");
}

TEST_CASE("line_prefixer: flush adds the missing newline once and only when it is missing", "[unit]") {
  LinePrefixer prefixer("p ");
  std::string out;

  prefixer.feed("a\nb", out);
  prefixer.flush(out);
  prefixer.flush(out);
  CHECK(out == "p a\np b\n");
}

TEST_CASE("line_prefixer: all 256 byte values pass unchanged", "[unit]") {
  std::string bytes;
  for (int value = 0; value < 256; ++value) {
    bytes.push_back(static_cast<char>(value));
  }
  auto const newline = bytes.find('\n');

  CHECK(in_chunks(bytes, 7, "") == bytes + "\n");
  CHECK(in_chunks(bytes, 300) == "[n:0] " + bytes.substr(0, newline + 1) + "[n:0] " + bytes.substr(newline + 1) + "\n");
}

TEST_CASE("line_prefixer: a 10 MiB line stays one line", "[unit]") {
  std::string const line(std::size_t{10} << 20, 'x');
  CHECK(in_chunks(line + "\n", 65536) == "[n:0] " + line + "\n");
}

TEST_CASE("line_prefixer: a line that never ends is cut into prefixed pieces of bounded size", "[unit]") {
  LinePrefixer prefixer("p ", 4);
  std::string out;

  prefixer.feed("abcdefghij", out);
  CHECK(out == "p abcd\np efgh\n");
  prefixer.feed("kl\nabcd\n", out);
  CHECK(out == "p abcd\np efgh\np ijkl\np abcd\n");
}

TEST_CASE("line_prefixer: on a terminal a progress bar is shown at each return, whatever the chunks", "[unit]") {
  std::string const bytes = "\r 10%\r 20%\r\nnext\r\n\r 30%\nlast\r";
  std::string const expected = "p  10%\rp  20%\r\np next\r\np  30%\np last\r\n";

  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    LinePrefixer prefixer("p ", 100, Return::redraws);
    std::string out;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      prefixer.feed(std::string_view(bytes).substr(at, size), out);
    }
    prefixer.flush(out);
    CHECK(out == expected);
  }
}

TEST_CASE("line_prefixer: elsewhere a progress bar stays one line", "[unit]") {
  CHECK(in_chunks("\r 10%\r 20%\n", 3, "p ") == "p \r 10%\r 20%\n");
}
