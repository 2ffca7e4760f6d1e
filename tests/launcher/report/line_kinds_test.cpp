#include "launcher/report/line_kinds.hpp"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::rendezvous::Role;

TEST_CASE("line_kinds: an exception explains, a mention of one only tells, a warning only hints", "[unit]") {
  CHECK(meaning_of("ValueError: no data").strength == Strength::explains);
  CHECK(meaning_of("AssertionError").strength == Strength::explains);
  CHECK(meaning_of("torch.OutOfMemoryError: CUDA out of memory.").strength == Strength::explains);
  CHECK(meaning_of("  what():  CUDA error: an illegal memory access").strength == Strength::explains);
  CHECK(meaning_of("retry after HTTPError: 503").strength == Strength::tells);
  CHECK(meaning_of("terminate called without an active exception").strength == Strength::tells);
  CHECK(meaning_of("libc++abi: terminating due to uncaught exception of type int").strength == Strength::tells);
  CHECK(meaning_of("./train: libc.so.6: version `GLIBC_2.38' not found (required by ./train)").strength ==
        Strength::tells);
  CHECK(meaning_of("Fatal Python error: Segmentation fault").strength == Strength::explains);
  CHECK(meaning_of("Fatal Python error: Aborted").strength == Strength::hints);
  CHECK(meaning_of("[W1123 22:41:12.201 TCPStore.cpp:125] Connection reset by peer").strength == Strength::hints);
  CHECK(meaning_of("step 12: no Error here, and no Exception").strength == Strength::nothing);
  CHECK(meaning_of("").strength == Strength::nothing);
  CHECK(meaning_of("train: main.cpp:3: int main(): Assertion `x > 0' failed.").strength == Strength::decides);
}

TEST_CASE("line_kinds: whoever waited, lost a peer or was told to end says so", "[unit]") {
  CHECK(meaning_of("[E1123 x.cpp:1] [Rank 0] Watchdog caught collective operation timeout: W").role == Role::waited);
  CHECK(meaning_of("RuntimeError: [a.cc:81] Timed out waiting 1800000ms for recv operation").role == Role::waited);
  CHECK(meaning_of("  what():  rank 3 on n1 did not arrive in time (call began 5.0 s ago, generation 2)").role ==
        Role::waited);
  CHECK(meaning_of("RuntimeError: [pair.cc:598] Connection closed by peer [10.0.0.2]:4711").role == Role::lost_peer);
  CHECK(meaning_of("ConnectionResetError: [Errno 104] Connection reset by peer").role == Role::lost_peer);
  CHECK(meaning_of(
            "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the "
            "remote server shutdown or crash?")
            .role == Role::lost_peer);
  CHECK(meaning_of("RuntimeError: [pair.cc:572] Application timeout caused pair closure").role == Role::waited);
  CHECK(meaning_of("EOFError").role == Role::lost_peer);
  CHECK(meaning_of("EOFError: Ran out of input").role == Role::culprit);
  CHECK(meaning_of("x.SignalException: Process 7 got signal: 15").role == Role::told_to_end);
  CHECK(meaning_of("RuntimeError: DataLoader worker (pid 7) is killed by signal: Terminated. ").role ==
        Role::told_to_end);
  CHECK(meaning_of("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. ").role == Role::culprit);
}

TEST_CASE("line_kinds: frames of every kind are known, and the first of a native stack are kept", "[unit]") {
  CHECK(shape_of("frame #3: c10::Error (0x7f in lib.so)") == Shape::native_frame);
  CHECK(shape_of("    #4 0x55d0 in main /job/train.cpp:3") == Shape::native_frame);
  CHECK(shape_of("    #3 0x55d0 in main /job/train.cpp:3") == Shape::line);
  CHECK(shape_of("#12") == Shape::line);
  CHECK(shape_of("# 12 things") == Shape::line);
  CHECK(shape_of("./train(main+0x1a) [0x55d0]") == Shape::native_frame);
  CHECK(shape_of("  Binary file \"python3\" [0x576aab]") == Shape::native_frame);
  CHECK(shape_of("  File \"/job/train.py\", line 12, in main") == Shape::python_frame);
  CHECK(shape_of("  File \"/job/train.py\", line 12 in main") == Shape::native_frame);
  CHECK(shape_of("Thread 0x00007f39b7fff640 (most recent call first):") == Shape::thread);
  CHECK(shape_of("Current thread 0x00007f39b7fff640 (most recent call first):") == Shape::line);
  CHECK(shape_of("Extension modules: a, b (total: 2)") == Shape::modules);
  CHECK(shape_of("ordinary") == Shape::line);
}

TEST_CASE("line_kinds: PyTorch's name of the rank is no part of a line", "[unit]") {
  CHECK(without_rank("[rank12]: ValueError: x") == "ValueError: x");
  CHECK(without_rank("[rank12]:[E1123 x] y") == "[E1123 x] y");
  CHECK(without_rank("[rank]: x") == "[rank]: x");
  CHECK(without_rank("[rank3] x") == "[rank3] x");
  CHECK(without_rank("rank3: x") == "rank3: x");
}

TEST_CASE("line_kinds: a line that says something has a notable word, and ordinary ones have none", "[unit]") {
  std::size_t telling_lines = 0;
  for (auto const& file : std::filesystem::directory_iterator(CXXRUN_SOURCE_DIR "/tests/data/last_words")) {
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) {
      CAPTURE(line);
      bool const tells = meaning_of(line).strength != Strength::nothing;
      telling_lines += tells ? 1 : 0;
      CHECK((!tells || notable(line)));
    }
  }
  CHECK(telling_lines > 50);
  for (auto const* line : {"EOFError", "KeyboardInterrupt", "MyException", "free(): invalid pointer", "corrupted size",
                           "malloc(): bad", "double free or corruption (out)", "*** stack smashing detected ***: x",
                           "  what():  x", "Fatal Python error: Bus error", "Traceback (most recent call last):",
                           "Exception ignored in: x", "During handling of the above exception, another",
                           "Last error:", "The above exception was the direct cause", "Current thread 0x7f39 (most"}) {
    CAPTURE(line);
    CHECK(notable(line));
    CHECK(notable("x " + std::string(line)));
  }
  CHECK(!notable("2026-11-23 22:41:10,480 INFO trainer: step 120 loss 2.31 lr 1e-4, 123 tokens/s, error 0.1\n"));
}
