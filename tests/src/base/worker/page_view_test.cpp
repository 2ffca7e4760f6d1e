#include "src/base/worker/page_view.hpp"

#include <cstddef>
#include <limits>
#include <memory>

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;          // NOLINT(google-build-using-namespace)
using namespace cxxrun::worker;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

std::uint32_t const kReduce = packed(comm::Kind::all_reduce, DType::f32, ReduceOp::sum);

void write(ControlPage& page, std::uint64_t sequence, std::int64_t entered, std::int64_t done) {
  auto& entry = page.operations[sequence % kOperations];
  entry.sequence = sequence;
  entry.entered = entered;
  entry.done = done;
  entry.count = 25;
  entry.what = kReduce;
  page.entered = sequence;
  page.done = done == 0 ? sequence - 1 : sequence;
}

}  // namespace

TEST_CASE("page_view: the figures are those of the last collective begun", "[unit]") {
  ControlPage page;
  page.generation = 3;
  CHECK(read_figures(page) == Figures{3, 0, 0, kUnknownOperation, 0});
  for (std::uint64_t sequence = 1; sequence <= 812; ++sequence) {
    write(page, sequence, 1, sequence == 812 ? 0 : 2);
  }
  CHECK(read_figures(page) == Figures{3, 812, 811, kReduce, 25});
}

TEST_CASE("page_view: groups are those that were whole while we looked, in the order of their numbers", "[unit]") {
  ControlPage page;
  page.idle = 1;
  page.groups[0].begun = 5;
  for (std::uint64_t i = 1; i < kGroups; ++i) {
    page.groups[i].begun = i;
    page.groups[i].size = 2;
    page.groups[i].id = 100 - i;
  }
  auto const figures = read_figures(page);
  CHECK(figures.idle);
  REQUIRE(figures.groups.size() == kGroups - 1);
  CHECK(figures.groups.front() == GroupCount{85, 15, 2});
  CHECK(begun_in_all(3, figures.groups) == 3 + 120);
}

TEST_CASE("page_view: its words are where src/runtime/python/cxxrun/_page.py writes them", "[unit]") {
  auto const script = testing::read_file(std::string(CXXRUN_SOURCE_DIR) + "/src/runtime/python/cxxrun/_page.py");
  auto const has = [&](std::string const& name, std::size_t number) {
    return script.find("\n" + name + " = " + std::to_string(number) + "\n") != std::string::npos;
  };
  CHECK(has("LAYOUT", kPageMagic));
  CHECK(has("CHECKPOINTS", offsetof(ControlPage, checkpoints)));
  CHECK(has("ENDS", offsetof(ControlPage, ends)));
  CHECK(has("GENERATION", offsetof(ControlPage, generation)));
  CHECK(has("STEP", offsetof(ControlPage, step)));
  CHECK(has("ALIVE", offsetof(ControlPage, alive)));
  CHECK(has("FIRST_STEP", offsetof(ControlPage, first_step)));
  CHECK(has("LAST_STEP", offsetof(ControlPage, last_step)));
  CHECK(has("ENTERED", offsetof(ControlPage, entered)));
  CHECK(has("DONE", offsetof(ControlPage, done)));
  CHECK(has("RING", offsetof(ControlPage, operations)));
  CHECK(has("ENTRY", sizeof(Operation)));
  CHECK(has("ENTRIES", kOperations));
  CHECK(has("ELSEWHERE", offsetof(ControlPage, elsewhere)));
  CHECK(has("GROUP_WORDS", offsetof(ControlPage, groups)));
  CHECK(script.find("GROUP_WORDS + " + std::to_string(sizeof(GroupWords)) + " * i") != std::string::npos);
  CHECK(has("GROUPS", kGroups));
  CHECK(has("IDLE", offsetof(ControlPage, idle)));
  CHECK(has("DDP_SAMPLE", offsetof(ControlPage, ddp_sample)));
  CHECK(has("DDP_FORWARD", offsetof(ControlPage, ddp_forward)));
  CHECK(has("DDP_BACKWARD", offsetof(ControlPage, ddp_backward)));
  CHECK(has("DDP_REDUCING", offsetof(ControlPage, ddp_reducing)));
  CHECK(has("LOOKS", offsetof(ControlPage, looks)));
  CHECK(has("LOOKED_BEGUN", offsetof(ControlPage, looked_begun)));
  CHECK(has("LOOKED_AT", offsetof(ControlPage, looked_at)));
  CHECK(has("FED", offsetof(ControlPage, fed)));
  CHECK(has("SAVED", offsetof(ControlPage, saved)));
  CHECK(has("UPDATES", offsetof(ControlPage, updates)));
  CHECK(has("UPDATED", offsetof(ControlPage, updated)));
  CHECK(has("UNKNOWN", kUnknownOperation));
  CHECK(has("BEGUN", kBegunOperation));
  CHECK(has("IN_BACKWARD", kInBackward));
  CHECK(has("IS_DONE", kIsDone));
  CHECK(has("UNKNOWN_OP", kUnknownOp));
}

TEST_CASE("page_view: its words are where tests/jobs/hangs_test.py writes them", "[unit]") {
  auto const script = testing::read_file(std::string(CXXRUN_SOURCE_DIR) + "/tests/jobs/hangs_test.py");
  auto const writes = [&](std::string const& text) { return script.find(text) != std::string::npos; };
  CHECK(writes("put(" + std::to_string(offsetof(ControlPage, generation)) + ", int(GENERATION))"));
  CHECK(writes("put(" + std::to_string(offsetof(ControlPage, entered)) + ", sequence)"));
  CHECK(writes("put(" + std::to_string(offsetof(ControlPage, done)) + ", sequence)"));
  CHECK(writes("return " + std::to_string(offsetof(ControlPage, operations)) + " + " +
               std::to_string(sizeof(Operation)) + " * (sequence % " + std::to_string(kOperations) + ")"));
}

TEST_CASE("page_view: a peer that was given up is one of that generation, and for a reason that there is", "[unit]") {
  ControlPage page;
  CHECK_FALSE(read_loss(page, 1));
  page.lost = static_cast<std::uint64_t>(PeerFailure::Why::left) << 32U | 3U;
  page.lost_in = 2;
  CHECK(read_loss(page, 2) == Loss{3, PeerFailure::Why::left});
  CHECK_FALSE(read_loss(page, 1));
  CHECK_FALSE(read_loss(page, 3));
  page.lost = static_cast<std::uint64_t>(PeerFailure::Why::stopped) << 32U | 3U;
  CHECK_FALSE(read_loss(page, 2));
  page.lost = UINT64_MAX;
  CHECK_FALSE(read_loss(page, 2));
}

TEST_CASE("page_view: an entry that is being written, or was written over, is not taken for another", "[unit]") {
  ControlPage page;
  write(page, 5, 1, 0);
  page.operations[5].sequence = 0;
  CHECK(read_figures(page).what == kUnknownOperation);
  page.operations[5].sequence = 69;
  CHECK(read_figures(page).what == kUnknownOperation);
  CHECK(read_figures(page).entered == 5);
}

TEST_CASE("page_view: the last 64 collectives come newest first", "[unit]") {
  ControlPage page;
  CHECK(read_operations(page).empty());
  for (std::uint64_t sequence = 1; sequence <= 100; ++sequence) {
    write(page, sequence, static_cast<std::int64_t>(sequence) * 1000, sequence == 100 ? 0 : 1);
  }
  auto const all = read_operations(page);
  REQUIRE(all.size() == 64);
  CHECK(all.front().sequence == 100);
  CHECK(all.back().sequence == 37);
}

TEST_CASE("page_view: what a page says is put into words, whatever it is", "[unit]") {
  TimePoint const now{100s};
  CHECK(describe_entry({812, 37'900'000'000, 0, 25, kReduce}, now) ==
        "#812 all_reduce of 25 f32, sum: entered 62.1 s ago, not done");
  CHECK(describe_entry({811, 37'000'000'000, 37'003'000'000, 25, kReduce}, now) ==
        "#811 all_reduce of 25 f32, sum: entered 63 s ago, done after 0.003 s");
  CHECK(number_operation(3, packed(comm::Kind::barrier, DType::u8, ReduceOp::sum), 0) == "barrier #3");
  CHECK(number_operation(3, kUnknownOperation, 9) == "collective #3");
  CHECK(number_operation(3, kBegunOperation, 9) == "collective #3");
  CHECK(describe_entry({3, 37'900'000'000, 0, 0, kBegunOperation}, now) == "#3 collective: entered 62.1 s ago");
  CHECK(describe_operation(kReduce | kUnknownOp << 16U, 25) == "all_reduce of 25 f32");
  CHECK(describe_operation(0xfefefefeU, 7) == "number 254 of 7 number 254");
  CHECK(describe_operation(packed(comm::Kind::allocate, DType::u8, ReduceOp::sum), 4096) == "memory of 4096 bytes");
  auto const least = std::numeric_limits<std::int64_t>::min();
  auto const most = std::numeric_limits<std::int64_t>::max();
  CHECK_FALSE(describe_entry({1, least, most, 0, 0}, now).empty());
  CHECK_FALSE(describe_entry({1, most, least, 0, 0}, now).empty());
}
