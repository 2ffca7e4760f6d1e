#include "launcher/hangs/hang_text.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

char const* const kWritten =
    "[New LWP 8]\n"
    "0x00007f in ?? ()\n\n"
    "Thread 2 (Thread 0x7f (LWP 8) \"background\"):\n"
    "#0  futex_wait () at futex.c:1\n\n"
    "Thread 1 (Thread 0x7e (LWP 7) \"train\"):\n"
    "#0  0x00007f in read () from /lib/libc.so.6\n"
    "#1  0x000055 in load (path=\"a\\tb\") at train.cpp:12\n"
    "#2  0x000055 in main () at train.cpp:40\n"
    "[Inferior 1 (process 7) detached]\n";

}  // namespace

TEST_CASE("hang_text: the frames shown are the main thread's innermost", "[unit]") {
  auto const frames = main_frames(kWritten, 2);
  REQUIRE(frames.size() == 2);
  CHECK(frames[0].find("read ()") != std::string::npos);
  CHECK(frames[1].find("train.cpp:12") != std::string::npos);
  CHECK(main_frames("ptrace: Operation not permitted.\n", 8).empty());
  CHECK(main_frames("", 8).empty());
}

TEST_CASE("hang_text: the place is the innermost line of the program itself, not of what it calls", "[unit]") {
  auto const python = [](std::string const& frames) {
    return place_in({"Thread 0x1 (most recent call first):\n" + frames, ""});
  };
  CHECK(python("  File \"/w/train.py\", line 33 in load\n  File \"/w/train.py\", line 90 in <module>\n") ==
        "/w/train.py:33 in load");
  CHECK(python("  File \"/usr/lib/python3.11/threading.py\", line 320 in wait\n"
               "  File \"/venv/lib/python3.9/site-packages/torch/utils/data.py\", line 7 in get\n"
               "  File \"/w/train.py\", line 33 in <module>\n") == "/w/train.py:33 in <module>");
  CHECK(python("  File \"/usr/lib/python3.11/threading.py\", line 320 in wait\n") ==
        "/usr/lib/python3.11/threading.py:320 in wait");
  CHECK(place_in({"", kWritten}) == "train.cpp:12 in load");
  CHECK(place_and_frames("Thread 0x1 (most recent call first):\n  File \"/usr/lib/python3/x.py\", line 2 in get\n"
                         "  File \"/w/train.py\", line 33 in load\n  File \"/w/train.py\", line 90 in <module>\n",
                         2) == "/w/train.py:33 in load (x.py:2 in get < train.py:33 in load)");
  CHECK(place_and_frames("", 2).empty());
  CHECK(place_in({"", "#0  read () at ../sysdeps/unix/read.c:26\n#1  main () at t.c:4\n"}) == "t.c:4 in main");
  CHECK(place_in({"", "#0  0x7f in clock_nanosleep () from /lib/libc.so.6\n#1  0x55 in main ()\n"}) ==
        "clock_nanosleep");
  CHECK(place_in({"", "ptrace: Operation not permitted.\n"}).empty());
  CHECK(place_in({}).empty());
}

TEST_CASE("hang_text: where there is no stack the line is shown that says why", "[unit]") {
  CHECK(why_no_stack("Could not attach to process.\nptrace: Operation not permitted.\n") ==
        "ptrace: Operation not permitted.");
  CHECK(why_no_stack("[New LWP 8]\n\ngdb took longer than 10 s\n") == "gdb took longer than 10 s");
  CHECK(why_no_stack("none: there is no gdb in PATH here\n") == "none: there is no gdb in PATH here");
  CHECK(why_no_stack("").empty());
}

TEST_CASE("hang_text: a frame is one line of printable text, and not a long one", "[unit]") {
  auto const frames = main_frames("#0  \x1b[31m" + std::string(5000, 'x'), 8);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].find('\x1b') == std::string::npos);
  CHECK(frames[0].size() < 200);
}

TEST_CASE("hang_text: hang.txt has the reason, the collectives and the stack", "[unit]") {
  worker::SeenOperation const last{4, 8'000'000'000, 0, 25,
                                   worker::packed(comm::Kind::all_reduce, DType::f32, ReduceOp::sum)};
  CHECK(hang_file("rank 3 did not enter", {last}, {"", "#0  main ()"}, TimePoint{10s}) ==
        "rank 3 did not enter\n\nits last collectives, newest first:\n"
        "  #4 all_reduce of 25 f32, sum: entered 2 s ago, not done\n\nits stack:\n#0  main ()\n");
  CHECK(hang_file("why", {}, {"", "none\n"}, TimePoint{}).find("first:\n  none\n") != std::string::npos);
  CHECK(hang_file("why", {}, {"  File \"a.py\"\n", ""}, TimePoint{})
            .ends_with("first:\n  none\n\nits Python stack:\n  File \"a.py\"\n"));
}

TEST_CASE("hang_text: of NCCL's answer the status is shown, without the replies before it", "[unit]") {
  std::string const head = "\nwhat NCCL says (RAS, localhost:7):\n";
  CHECK(ras_section("localhost:7", "SERVER PROTOCOL 2\nOK\nNCCL version 2.27.3\n\nJob summary\n") ==
        head + "NCCL version 2.27.3\n\nJob summary\n");
  CHECK(ras_section("localhost:7", "SERVER PROTOCOL 2\nERROR: Invalid timeout value 3\n") ==
        head + "ERROR: Invalid timeout value 3\n");
  CHECK(ras_section("localhost:7", "SERVER PROTOCOL 2\nOK\nrank \x1b[2J\a7\n").find_first_of("\x1b\a") ==
        std::string::npos);
  CHECK(ras_section("localhost:7", "none: no answer within 5 s\n") == head + "none: no answer within 5 s\n");
  for (char const* const nothing : {"", "SERVER PROTOCOL 2", "SERVER PROTOCOL 2\nOK", "SERVER PROTOCOL 2\nOK\n"}) {
    CHECK(ras_section("localhost:7", nothing) == head + "nothing\n");
  }
}

TEST_CASE("hang_text: of Python's stacks the main thread's is shown, whichever took the signal", "[unit]") {
  std::string const helper = "hread 0x1 (most recent call first):\n  File \"watch.py\", line 3 in wait\n\n";
  std::string const main =
      "hread 0x2 (most recent call first):\n  File \"t.py\", line 9 in load\n  File \"t.py\", line 20 in m\n";
  std::vector<std::string> const shown{"File \"t.py\", line 9 in load"};
  CHECK(python_frames("T" + helper + "Current t" + main, 1) == shown);
  CHECK(python_frames("Current t" + helper + "T" + main, 1) == shown);
  CHECK(python_frames("T" + main, 8).size() == 2);
  CHECK(python_frames("", 8).empty());
  CHECK(python_frames(
            "Thread 0x1 (most recent call first):\n  File \"/p/torch/nn/modules/linear.py\", line 1 in forward\n"
            "  File \"/p/torch/nn/modules/module.py\", line 2 in _call_impl\n  File \"/m/train.py\", line 3 in f\n",
            2) == std::vector<std::string>{"File \"/p/torch/nn/modules/linear.py\", line 1 in forward",
                                           "File \"/m/train.py\", line 3 in f"});
}

TEST_CASE("hang_text: the debugger asks nothing and reads no start-up file", "[unit]") {
  auto const command = debugger_command(77);
  CHECK(command[0] == "gdb");
  CHECK(command[4] == "77");
  CHECK(command.back() == "thread apply all bt 20");
  auto const alike = debugger_command(77, true);
  CHECK(alike.size() == command.size() + 4);
  CHECK(alike[6] == "set print address off");
  CHECK(alike.back() == command.back());
}

TEST_CASE("hang_text: frames without addresses are read, too", "[unit]") {
  std::string const written =
      "Thread 1 (LWP 7 \"w\"):\n#0  read () at ../sysdeps/read.c:26\n#1  load (path=...) at train.cpp:12\n";
  CHECK(main_frames(written, 8).size() == 2);
  CHECK(place_in({.python = "", .native = written}) == "train.cpp:12 in load");
}

TEST_CASE("python_stack: the signal is in the file's name, and no other file is taken for it", "[unit]") {
  CHECK(stack_signal("/memfd:cxxrun-stacks-47 (deleted)") == 47);
  CHECK(stack_signal("/memfd:cxxrun-stacks-47") == 47);
  CHECK(stack_signal("/memfd:cxxrun-stacks- (deleted)") == 0);
  CHECK(stack_signal("/memfd:cxxrun-stacks-0 (deleted)") == 0);
  CHECK(stack_signal("/memfd:cxxrun-stacks-65 (deleted)") == 0);
  CHECK(stack_signal("/memfd:cxxrun-stacks--9 (deleted)") == 0);
  CHECK(stack_signal("/memfd:cxxrun-stacks-99999999999 (deleted)") == 0);
  CHECK(stack_signal("/home/someone/memfd:cxxrun-stacks-47") == 0);
  CHECK(stack_signal("socket:[47]") == 0);
}
