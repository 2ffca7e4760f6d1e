#include "launcher/logs/line_prefixer.hpp"

#include "tests/support/catch.hpp"

using cxxrun::launcher::LinePrefixer;
using cxxrun::launcher::Return;
using cxxrun::launcher::Shown;

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

namespace {

/// A stream of which what is unfinished is shown after each chunk.
struct Watched {
  explicit Watched(Return meaning, Shown shown) : prefixer("p ", 100, meaning, shown) {}
  /// What the chunk adds, and what showing the rest does.
  std::string show(std::string_view chunk) {
    std::string out;
    prefixer.feed(chunk, out);
    if (prefixer.unfinished()) {
      prefixer.show(out);
      CHECK_FALSE(prefixer.unfinished());
    }
    return out;
  }
  std::string end() {
    std::string out;
    prefixer.flush(out);
    return out;
  }
  LinePrefixer prefixer;
};

}  // namespace

TEST_CASE("line_prefixer: what is shown unfinished is ended, and each piece has the prefix", "[unit]") {
  Watched pipe(Return::byte, Shown::ended);
  CHECK(pipe.show("a\nloading... ") == "p a\np loading... \n");
  CHECK(pipe.show("more") == "p more\n");
  CHECK_FALSE(pipe.prefixer.is_open());
  CHECK(pipe.show(" done\nb\n") == "p  done\np b\n");
  CHECK(pipe.show("whole") == "p whole\n");
  CHECK(pipe.show("\n").empty());
  CHECK(pipe.show("\n") == "p \n");
  CHECK(pipe.show("two\r") == "p two\n");
  CHECK(pipe.show("\n").empty());
  CHECK(pipe.show("last") == "p last\n");
  CHECK(pipe.end().empty());
}

TEST_CASE("line_prefixer: a line that stays open goes on at once, and is whole when nobody interrupts it", "[unit]") {
  for (auto const meaning : {Return::byte, Return::redraws}) {
    Watched file(meaning, Shown::open);
    CHECK(file.show("loading... ") == "p loading... ");
    CHECK(file.prefixer.is_open());
    CHECK(file.show("more") == "more");
    CHECK(file.show(" done\r\nb\n") == " done\r\np b\n");
    CHECK_FALSE(file.prefixer.is_open());
    CHECK(file.show("(Pdb) ") == "p (Pdb) ");
    CHECK(file.end() == "\n");
  }
}

TEST_CASE("line_prefixer: an open line that was interrupted goes on with the prefix, and not at all with its newline",
          "[unit]") {
  for (auto const meaning : {Return::byte, Return::redraws}) {
    Watched file(meaning, Shown::open);
    CHECK(file.show("one") == "p one");
    file.prefixer.interrupted();
    CHECK(file.show("\n").empty());
    CHECK(file.show("two") == "p two");
    file.prefixer.interrupted();
    CHECK(file.show(" three") == "p  three");
    file.prefixer.interrupted();
    CHECK(file.show(" four\n\n") == "p  four\np \n");
    CHECK(file.end().empty());
  }
}

TEST_CASE("line_prefixer: of a bar in a pipe or file the newest states are shown, each a line", "[unit]") {
  for (auto const shown : {Shown::ended, Shown::open}) {
    Watched pipe(Return::byte, shown);
    CHECK(pipe.show("\r 10%\r 20%") == "p  20%\n");
    CHECK(pipe.prefixer.redrawn());
    CHECK(pipe.show("\r 30%\r") == "p  30%\n");
    CHECK(pipe.show("\r      \r").empty());
    CHECK(pipe.show("\r 40%\r 50%\nnext\n") == "p  50%\np next\n");
    CHECK(pipe.show("a\rb\n") == "p a\rb\n");  // not shown before: as it came
    CHECK(pipe.show("\r100%") == "p 100%\n");
    CHECK(pipe.show("\n").empty());
  }
  Watched file(Return::byte, Shown::open);
  CHECK(file.show("  0%") == "p   0%");  // no return yet
  CHECK(file.show("\r 10%") == "\np  10%\n");
  CHECK(file.show("\r 20%\n") == "p  20%\n");
}

TEST_CASE("line_prefixer: on a terminal the newest state of a bar is shown and stays to be redrawn", "[unit]") {
  for (auto const shown : {Shown::ended, Shown::open}) {
    Watched terminal(Return::redraws, shown);
    CHECK(terminal.show("\r 10%\r 20%") == "p  10%\rp  20%\r");
    CHECK(terminal.show("\r 30%") == "p  20%\rp  30%\r");
    CHECK(terminal.show("\n") == "p  30%\n");
  }
  Watched terminal(Return::redraws, Shown::open);
  CHECK(terminal.show("  0%") == "p   0%");
  CHECK(terminal.show("\r 10%") == "\rp  10%\r");
  CHECK_FALSE(terminal.prefixer.is_open());
}

TEST_CASE("line_prefixer: no byte but returns and newlines is lost, wherever it is shown and interrupted", "[unit]") {
  std::string const bytes = "one\ntwo three\n\nfour\nfive";
  for (auto const shown : {Shown::ended, Shown::open}) {
    for (std::size_t size = 1; size < 8; ++size) {
      Watched watched(Return::byte, shown);
      std::string all;
      for (std::size_t at = 0; at < bytes.size(); at += size) {
        all += watched.show(std::string_view(bytes).substr(at, size));
        if (watched.prefixer.is_open() && at % 3 == 0) {
          all += "\n";
          watched.prefixer.interrupted();
        }
      }
      all += watched.end();
      std::string words;
      for (std::string_view rest = all; !rest.empty();) {
        REQUIRE(rest.starts_with("p "));
        words += rest.substr(2, rest.find('\n') - 2);
        rest.remove_prefix(rest.find('\n') + 1);
      }
      CHECK(words == "onetwo threefourfive");
    }
  }
}
