#include "launcher/report/evidence.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::rendezvous::Role;

namespace {

std::string numbered(int from, int to, std::string const& word) {
  std::string text;
  for (int i = from; i <= to; ++i) {
    text += word + std::string(static_cast<std::size_t>(i - from) % 26 + 1, 'x') + " " + std::to_string(i) + "\n";
  }
  return text;
}

LastWords of(std::string_view text, std::size_t chunk = 100'000) {
  Evidence evidence;
  for (; !text.empty(); text.remove_prefix(std::min(chunk, text.size()))) {
    evidence.feed(text.substr(0, chunk), {});
  }
  return evidence.words();
}

std::ptrdiff_t lines_in(std::string const& text) {
  return std::count(text.begin(), text.end(), '\n');
}

/// A file of tests/data/last_words: the expected result, and the stderr.
struct Recorded {
  std::string name;
  std::string told;
  std::string role;
  std::string text;
};

std::vector<Recorded> recorded() {
  std::vector<Recorded> all;
  for (auto const& file : std::filesystem::directory_iterator(CXXRUN_SOURCE_DIR "/tests/data/last_words")) {
    std::ifstream in(file.path());
    Recorded one{file.path().filename(), "", "", ""};
    std::getline(in, one.told);
    std::getline(in, one.role);
    in.ignore(1);
    one.told.erase(0, 6);
    one.role.erase(0, 6);
    one.text.assign(std::istreambuf_iterator<char>(in), {});
    all.push_back(std::move(one));
  }
  return all;
}

std::string name_of(Role role) {
  switch (role) {
    case Role::culprit: return "culprit";
    case Role::waited: return "waited";
    case Role::lost_peer: return "lost_peer";
    case Role::told_to_end: return "told_to_end";
  }
  return "";
}

}  // namespace

TEST_CASE("evidence: of every shape of a crash the line that says why is found, and whose doing it was", "[unit]") {
  auto const all = recorded();
  REQUIRE(all.size() == 17);
  for (auto const& crash : all) {
    CAPTURE(crash.name);
    for (std::size_t const chunk : {1UL, 7UL, 100'000UL}) {
      auto const words = of(crash.text, chunk);
      CHECK(words.told == crash.told);
      CHECK(name_of(words.role) == crash.role);
      CHECK(lines_in(words.tail) <= 20);
    }
  }
}

TEST_CASE("evidence: stacks, threads, modules and copies are folded with their number", "[unit]") {
  for (auto const& crash : recorded()) {
    CAPTURE(crash.name);
    auto const tail = of(crash.text).tail;
    CHECK(tail.find("frame #") == std::string::npos);
    CHECK(tail.find("Extension modules:") == std::string::npos);
    auto const shows = [&](std::string const& line) { return tail.find(line + "\n") != std::string::npos; };
    if (crash.name == "cuda_illegal_access.txt") {
      CHECK(shows("… 15 frames"));
      CHECK(shows("… 123 frames of 42 other threads"));
      CHECK(shows("… 7 extension modules"));
    } else if (crash.name == "device_assertion.txt") {
      CHECK(tail.find("RuntimeError: CUDA error") != std::string::npos);
    } else if (crash.name == "cuda_out_of_memory.txt") {
      CHECK(tail.starts_with("Traceback (most recent call last):\n  File \"/job/train.py\", line 120, in <module>\n"));
      CHECK(shows("  … 10 frames"));
      CHECK(shows("    x = self.up(x)"));
      CHECK(tail.find("^^^") == std::string::npos);
    } else if (crash.name == "segfault_python_3_14.txt") {
      CHECK(shows("Current thread's C stack trace (most recent call first):\n… 22 frames\n… 2 extension modules"));
    } else if (crash.name == "address_sanitizer.txt") {
      CHECK(shows("    #3 0x55d00003 in f3 /job/train.cpp:6:5"));
      CHECK(shows("… 26 frames"));
    }
  }
}

TEST_CASE("evidence: of lines that differ in numbers alone the first and the last three are shown", "[unit]") {
  std::string text;
  for (int i = 0; i < 400; ++i) {
    text += "block " + std::to_string(i) + ", thread 0x" + std::to_string(i) + "af: failed\n";
  }
  CHECK(of(text).tail ==
        "block 0, thread 0x0af: failed\n… 396 more like it\nblock 397, thread 0x397af: failed\n"
        "block 398, thread 0x398af: failed\nblock 399, thread 0x399af: failed\n");
  CHECK(of("try 1\ntry 2\ntry 3\ntry 4\n").tail == "try 1\ntry 2\ntry 3\ntry 4\n");
}

TEST_CASE("evidence: a short stream is kept as it is, also without its last newline", "[unit]") {
  CHECK(of("") == LastWords{});
  CHECK(of("a\nb").tail == "a\nb");
  CHECK(of("a\nb\n").tail == "a\nb\n");
  CHECK(of("Segmentation fault").told == "Segmentation fault");
}

TEST_CASE("evidence: twenty lines are shown, whatever the chunks of the flood before them", "[unit]") {
  std::string const flood = numbered(1, 20'000, "line ");
  std::string const last = flood.substr(flood.find("line " + std::string((19'981 - 1) % 26 + 1, 'x') + " 19981\n"));
  for (std::size_t const size : {1UL, 100UL, 8192UL, 100'000UL}) {
    CHECK(of(flood, size).tail == last);
  }
}

TEST_CASE("evidence: the line that says why outlives any number of lines after it", "[unit]") {
  auto const words = of("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nMyFailure: no data\n" +
                        numbered(1, 100'000, "bye "));
  CHECK(words.told == "MyFailure: no data");
  CHECK(words.tail.find("no data") == std::string::npos);
}

TEST_CASE("evidence: what Python ignores at the end is not why it failed", "[unit]") {
  std::string const frame = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n";
  std::string const chain = "KeyError: 7\n\nDuring handling of the above exception, another exception occurred:\n\n";
  for (std::string const begin :
       {"Exception ignored in: <_io.TextIOWrapper name='<stdout>'>",
        "Exception ignored on calling ctypes callback function: <function cb at 0x7f3c>",
        "Exception ignored while calling deallocator <function Loader.__del__ at 0x7f3c>:",  // Python 3.14
        "Error in atexit._run_exitfuncs:",                                                   // Python 3.9
        "--- Logging error ---"}) {
    for (auto const& first : {std::string(), frame + chain}) {
      auto const words =
          of(frame + "ValueError: 3\n" + begin + "\n" + first + frame + "BrokenPipeError: [Errno 32] Broken pipe\n");
      CHECK(words.told == "ValueError: 3");
      CHECK(words.role == Role::culprit);
    }
    CHECK(of(begin + "\n" + frame + "KeyError: 7\n" + frame + "ValueError: 3\n").told == "ValueError: 3");
  }
}

TEST_CASE("evidence: an exception raised from one that every restart would bring again does not hide it", "[unit]") {
  auto const raised = [](std::string const& first, std::string const& link, std::string const& last) {
    std::string const frame =
        "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    go()\n";
    return of(frame + first + "\n\n" + link + "\n\n" + frame + last + "\n").told;
  };
  std::string const from = "The above exception was the direct cause of the following exception:";
  std::string const within = "During handling of the above exception, another exception occurred:";
  for (std::string const first : {"cxxrun.RefusedError: Elastic: no", "ModuleNotFoundError: No module named 'apex'"}) {
    CHECK(raised(first, from, "RuntimeError: the training has failed") == first);
    CHECK(raised(first, within, "ValueError: of another way") == "ValueError: of another way");
  }
  CHECK(raised("KeyError: 'lr'", from, "ValueError: bad settings") == "ValueError: bad settings");
}

TEST_CASE("evidence: a helper that runs the script again is why its worker fails after it", "[unit]") {
  std::string const refused =
      "cxxrun.RefusedError: Elastic: a helper that multiprocessing has started runs the script again: …";
  CHECK(of("Traceback (most recent call last):\n  x\n" + refused +
           "\nTraceback (most recent call last):\n  x\nConnectionResetError: [Errno 104] Connection reset by peer\n")
            .told == refused);
}

TEST_CASE("evidence: a progress bar is one line, its last state", "[unit]") {
  std::string bar;
  for (int i = 0; i <= 100; ++i) {
    bar += "\r " + std::to_string(i) + " %";
  }
  for (std::size_t const chunk : {3UL, 100UL, 100'000UL}) {
    CHECK(of("start\n" + bar, chunk).tail == "start\n 100 %");
  }
  CHECK(of(bar + "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nStop: 3\n", 5).told == "Stop: 3");
  CHECK(of("dos\r\nlines\r\n", 4).tail == "dos\nlines\n");
}

TEST_CASE("evidence: of one endless line both ends are kept", "[unit]") {
  Evidence evidence;
  evidence.feed("begin", {});
  for (int i = 0; i < 1000; ++i) {
    evidence.feed(std::string(100'000, 'x'), {});  // 100 MB
  }
  evidence.feed("end", {});
  auto const tail = evidence.words().tail;
  CHECK(tail.size() == kLineBytes + std::string("…").size());
  CHECK(tail.starts_with("beginxxx"));
  CHECK(tail.ends_with("xxxend"));
  CHECK(tail.find("x…x") != std::string::npos);
}

TEST_CASE("evidence: whole lines are shown, at most 8 KiB of them", "[unit]") {
  std::string text;
  for (int i = 0; i < 15; ++i) {
    text += std::string(1000, static_cast<char>('a' + i)) + "\n";
  }
  CHECK(of(text).tail.size() == std::size_t{8} * 1001);
}

TEST_CASE("evidence: colours do not hide what a line says", "[unit]") {
  auto const words = of("\033[1;35mValueError\033[0m: \033[35mno data\033[0m\n");
  CHECK(words.told == "ValueError: no data");
}

TEST_CASE("evidence: in a flood the line that says why is found as well, wherever the chunks end", "[unit]") {
  auto const flood = numbered(1, 90'000, "line ");
  REQUIRE(flood.size() > 2 * kLookBytes);
  for (auto const& crash : recorded()) {
    CAPTURE(crash.name);
    for (std::size_t const chunk : {777UL, 65'536UL, 262'144UL}) {
      auto const words = of(flood + crash.text, chunk);
      CHECK(words.told == crash.told);
      CHECK(name_of(words.role) == crash.role);
      auto const alone = of(crash.text).tail;
      CHECK((words.tail.ends_with(alone) || lines_in(words.tail) == 20));
      CHECK(lines_in(words.tail) <= 20);
    }
  }
  auto const error = "ValueError: no data\n";
  CHECK(of(flood + error + flood.substr(0, kHeldBytes - 100), 65'536).told == "ValueError: no data");
  CHECK(of(error + flood, 65'536).told == "ValueError: no data");
  CHECK(of(flood + error + flood, 65'536).told.empty());  // it was skipped
}

TEST_CASE("evidence: what was passed over in a flood is said where it shows", "[unit]") {
  std::string frames;
  while (frames.size() < 3 * kLookBytes) {
    frames += "frame #3: f (0x7f in lib.so)...\n";  // 32 bytes
  }
  Evidence evidence;
  for (std::string_view rest = frames; !rest.empty(); rest.remove_prefix(65'536)) {
    evidence.feed(rest.substr(0, 65'536), {});
  }
  CHECK(evidence.words().tail == "… 32768 frames\n… 1792 KiB of lines in between\n… 8192 frames\n");
  evidence.feed("bye\n", {});
  auto const some = cxxrun::TimePoint{} + std::chrono::microseconds(std::size_t{128} << 10);
  evidence.feed(frames.substr(0, std::size_t{64} << 10), some);
  CHECK(evidence.words().tail == "… 32768 frames\n… 1920 KiB of lines in between\n… 4096 frames\nbye\n… 2048 frames\n");
}

TEST_CASE("evidence: a traceback whose end was passed over makes no exception of a line after it", "[unit]") {
  std::string text = "Traceback (most recent call last):\n";
  while (text.size() < 2 * kLookBytes) {
    text += "  File \"train.py\", line 3, in step\n";
  }
  CHECK(of(text + numbered(1, 20'000, "bye "), 65'536).told.empty());
  CHECK(of(text.substr(0, text.find('\n') + 1) + "bye\n").told == "bye");
}

TEST_CASE("evidence: a flood of small chunks, and one line longer than what is held, are no exceptions", "[unit]") {
  Evidence evidence;
  evidence.feed(std::string(kLookBytes, 'x') + "\n", {});
  for (int i = 0; i < 30'000; ++i) {
    evidence.feed("round " + std::to_string(i) + " of many\n", {});
  }
  auto const tail = evidence.words().tail;
  CHECK(tail.ends_with("… " + tail.substr(tail.find("… ") + 4)));
  CHECK(tail.ends_with("round 29998 of many\nround 29999 of many\n"));
  evidence.feed(std::string(100'000, 'y') + "\n", {});
  CHECK(evidence.words().tail.ends_with("yyy\n"));
}
