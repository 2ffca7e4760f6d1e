#include "launcher/logs/line_prefixer.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using namespace std::chrono_literals;

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
    LinePrefixer prefixer("p ", 100, CarriageReturn::redraws);
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

/// A stream whose unfinished line is shown after each chunk.
struct Watched {
  explicit Watched(CarriageReturn meaning, PartialLine shown) : prefixer("p ", 100, meaning, shown) {}
  /// The output for the chunk, and for showing the rest.
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
  Watched pipe(CarriageReturn::byte, PartialLine::ended);
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
  for (auto const meaning : {CarriageReturn::byte, CarriageReturn::redraws}) {
    Watched file(meaning, PartialLine::open);
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
  for (auto const meaning : {CarriageReturn::byte, CarriageReturn::redraws}) {
    Watched file(meaning, PartialLine::open);
    CHECK(file.show("one") == "p one");
    file.prefixer.on_interrupted();
    CHECK(file.show("\n").empty());
    CHECK(file.show("two") == "p two");
    file.prefixer.on_interrupted();
    CHECK(file.show(" three") == "p  three");
    file.prefixer.on_interrupted();
    CHECK(file.show(" four\n\n") == "p  four\np \n");
    CHECK(file.end().empty());
  }
}

TEST_CASE("line_prefixer: what is shown unfinished ends with a whole character, and no byte is lost", "[unit]") {
  Watched pipe(CarriageReturn::byte, PartialLine::ended);
  CHECK(pipe.show("caf\xC3") == "p caf\n");
  CHECK(pipe.show("\xA9 \xE2\x82") == "p \xC3\xA9 \n");
  CHECK(pipe.show("\xAC\n") == "p \xE2\x82\xAC\n");
  CHECK(pipe.show("\xF0\x9D\x84").empty());
  CHECK(pipe.show("\x9E") == "p \xF0\x9D\x84\x9E\n");
  CHECK(pipe.show("no text\xBF\xBF\xBF\xBF") == "p no text\xBF\xBF\xBF\xBF\n");
  CHECK(pipe.show("nor this\xFF") == "p nor this\n");
  CHECK(pipe.end() == "p \xFF\n");
  for (auto const meaning : {CarriageReturn::byte, CarriageReturn::redraws}) {
    Watched file(meaning, PartialLine::open);
    CHECK(file.show("caf\xC3") == "p caf");
    CHECK(file.show("\xA9\n") == "\xC3\xA9\n");
  }
}

TEST_CASE("line_prefixer: of a bar in a pipe or file the newest states are shown, each a line", "[unit]") {
  for (auto const shown : {PartialLine::ended, PartialLine::open}) {
    Watched pipe(CarriageReturn::byte, shown);
    CHECK(pipe.show("\r 10%\r 20%") == "p  20%\n");
    CHECK(pipe.prefixer.redrawn());
    CHECK(pipe.show("\r 30%\r") == "p  30%\n");
    CHECK(pipe.show("\r      \r").empty());
    CHECK(pipe.show("\r 40%\r 50%\nnext\n") == "p  50%\np next\n");
    CHECK(pipe.show("a\rb\n") == "p a\rb\n");  // not shown before: as it came
    CHECK(pipe.show("\r100%") == "p 100%\n");
    CHECK(pipe.show("\n").empty());
  }
  Watched file(CarriageReturn::byte, PartialLine::open);
  CHECK(file.show("  0%") == "p   0%");  // no return yet
  CHECK(file.show("\r 10%") == "\np  10%\n");
  CHECK(file.show("\r 20%\n") == "p  20%\n");
}

TEST_CASE("line_prefixer: on a terminal the newest state of a bar is shown and stays to be redrawn", "[unit]") {
  for (auto const shown : {PartialLine::ended, PartialLine::open}) {
    Watched terminal(CarriageReturn::redraws, shown);
    CHECK(terminal.show("\r 10%\r 20%") == "p  10%\rp  20%\r");
    CHECK(terminal.show("\r 30%") == "p  20%\rp  30%\r");
    CHECK(terminal.show("\n") == "p  30%\n");
  }
  Watched terminal(CarriageReturn::redraws, PartialLine::open);
  CHECK(terminal.show("  0%") == "p   0%");
  CHECK(terminal.show("\r 10%") == "\rp  10%\r");
  CHECK_FALSE(terminal.prefixer.is_open());
}

TEST_CASE("line_prefixer: no byte but returns and newlines is lost, wherever it is shown and interrupted", "[unit]") {
  std::string const bytes = "one\ntwo three\n\nfour\nfive";
  for (auto const shown : {PartialLine::ended, PartialLine::open}) {
    for (std::size_t size = 1; size < 8; ++size) {
      Watched watched(CarriageReturn::byte, shown);
      std::string all;
      for (std::size_t at = 0; at < bytes.size(); at += size) {
        all += watched.show(std::string_view(bytes).substr(at, size));
        if (watched.prefixer.is_open() && at % 3 == 0) {
          all += "\n";
          watched.prefixer.on_interrupted();
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

namespace {

constexpr TimePoint kBegin{1000s};

/// A line grows every `pace` for `length`: how often it is shown, and when the last time.
std::pair<int, TimePoint> shows(ShowTimes times, bool bar, Millis pace, Millis length) {
  int count = 0;
  TimePoint last{};
  bool waits = false;
  for (auto now = kBegin; now < kBegin + length + 10s; now += 10ms) {
    if (now < kBegin + length && (now - kBegin) % pace == 0ms) {
      times.on_bytes(now);
      waits = true;
    }
    if (waits && now >= times.due(bar && count > 0)) {
      times.on_shown(now);
      last = now;
      waits = false;
      ++count;
    }
  }
  return {count, last};
}

}  // namespace

TEST_CASE("show_times: an unfinished line is shown within a second, even one that moves all the time", "[unit]") {
  ShowTimes times(kUnfinishedFor);
  times.on_bytes(kBegin);
  times.on_bytes(kBegin + 700ms);
  CHECK(times.due(false) == kBegin + kUnfinishedFor);
  CHECK(kUnfinishedFor < 1s);
}

TEST_CASE("show_times: a bar is shown every few seconds, whatever its pace, and soon after it has stopped", "[unit]") {
  for (auto const pace : {10ms, 250ms, 700ms, 1000ms, 1500ms}) {
    auto const [count, last] = shows(ShowTimes(kUnfinishedFor), true, pace, 60s);
    CHECK(count >= 12);
    CHECK(count <= 31);
    CHECK(last <= kBegin + 60s + kBarAtLeast);
  }
  CHECK(shows(ShowTimes(kUnfinishedFor), true, 250ms, 3s).second <= kBegin + 3750ms);
}

TEST_CASE("show_times: the first pieces of a line are shown within a second each, and dots at the pace of a bar",
          "[unit]") {
  CHECK(shows(ShowTimes(kUnfinishedFor), false, 1s, 3s).first == 3);
  auto const [count, last] = shows(ShowTimes(kUnfinishedFor), false, 1s, 60s);
  CHECK(count <= 33);
  CHECK(last <= kBegin + 60s + kBarAtLeast);
  CHECK(shows(ShowTimes(kPromptFor), false, 1s, 60s).first == 60);
}

TEST_CASE("show_times: a line that may ask for an answer is shown at once, the next piece of it too, but not a bar",
          "[unit]") {
  ShowTimes times(kPromptFor);
  times.on_bytes(kBegin);
  times.on_bytes(kBegin + 30ms);
  CHECK(times.due(false) == kBegin + kPromptFor);
  times.on_shown(kBegin + 50ms);
  times.on_bytes(kBegin + 60ms);
  CHECK(times.due(false) == kBegin + 60ms + kPromptFor);
  CHECK(shows(ShowTimes(kPromptFor), true, 250ms, 60s).first <= 31);
}

TEST_CASE("show_times: the next line is as new as the first one was", "[unit]") {
  ShowTimes times(kUnfinishedFor);
  times.on_bytes(kBegin);
  times.on_shown(kBegin + 1s);
  times.on_line_end();
  times.on_bytes(kBegin + 1100ms);
  CHECK(times.due(false) == kBegin + 1100ms + kUnfinishedFor);
}

namespace {

/// The output of the filter when `bytes` arrive in chunks of `size`.
std::string filtered(std::string_view bytes, std::size_t size, std::vector<std::string> const& words) {
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
    CHECK(filtered(bytes, size, {"loss", "error"}) ==
          "[n:0] loss 3\n[n:0] an error\r\n[n:0] loss and error\n[n:0] last loss\n");
    CHECK(filtered(bytes, size, {"absent"}).empty());
  }
}

TEST_CASE("line_filter: a word that is in the prefix alone is not in the line", "[unit]") {
  CHECK(filtered("a\nn:0\n", 3, {"n:0"}) == "[n:0] n:0\n");
}

TEST_CASE("line_filter: words that match every line make a copy, zeros and broken UTF-8 included", "[unit]") {
  std::string const bytes("a\0\xff\nb\0\n", 7);
  CHECK(filtered(bytes, 2, {"a", "b"}) == std::string("[n:0] a\0\xff\n[n:0] b\0\n", 19));
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
