#include "src/base/worker/recorder.hpp"

#include <memory>

#include "src/base/worker/page_view.hpp"
#include "tests/support/catch.hpp"

using cxxrun::DType;
using cxxrun::ReduceOp;
using cxxrun::comm::Call;
using cxxrun::comm::Kind;
using cxxrun::worker::ControlPage;
using cxxrun::worker::kOperations;
using cxxrun::worker::packed;
using cxxrun::worker::Recorder;

using namespace std::chrono_literals;

namespace {

Call const kCall{.kind = Kind::all_reduce, .type = DType::f32, .op = ReduceOp::max, .count = 12};

}  // namespace

TEST_CASE("recorder: a call under way is entered and not done, and says what it is") {
  auto page = std::make_unique<ControlPage>();
  Recorder recorder(*page, 3, true);
  CHECK(page->generation == 3);
  recorder.entered(kCall);
  auto const& operation = page->operations[1];
  CHECK(page->entered == 1);
  CHECK(page->done == 0);
  CHECK(operation.sequence == 1);
  CHECK(operation.count == 12);
  CHECK(operation.what == packed(Kind::all_reduce, DType::f32, ReduceOp::max));
  CHECK(operation.entered > 0);
  CHECK(operation.entered == page->alive);
  CHECK(operation.done == 0);
  recorder.done();
  CHECK(page->done == 1);
  CHECK(operation.done >= operation.entered.load());
  CHECK(page->alive == operation.done);
}

TEST_CASE("recorder: the time inside calls is counted, but not in one that nobody has to wait in") {
  auto page = std::make_unique<ControlPage>();
  Recorder recorder(*page, 3, true);
  recorder.entered(kCall);
  page->operations[1].entered = page->operations[1].entered - 5'000'000;  // 5 ms ago
  CHECK(page->inside == 0);
  recorder.done();
  auto const inside = page->inside.load();
  CHECK(inside >= 5'000'000);
  recorder.entered({.kind = Kind::broadcast, .count = 12});
  page->operations[2].entered = page->operations[2].entered - 5'000'000;
  recorder.done();
  CHECK(page->inside == inside);
  Recorder next(*page, 4, true);
  CHECK(page->inside == 0);
}

TEST_CASE("recorder: the page keeps the last operations, each at its place") {
  auto page = std::make_unique<ControlPage>();
  Recorder recorder(*page, 1, true);
  for (std::size_t i = 0; i < kOperations + 5; ++i) {
    recorder.entered(kCall);
    recorder.done();
  }
  CHECK(page->operations[5].sequence == kOperations + 5);
  CHECK(page->operations[6].sequence == 6);
  CHECK(page->entered == kOperations + 5);

  Recorder next(*page, 2, true);  // another generation begins from 1
  CHECK(page->entered == 0);
  CHECK(page->operations[6].sequence == 0);
  next.entered(kCall);
  CHECK(page->operations[1].sequence == 1);
}

TEST_CASE("recorder: what checkpoints take is counted from the first step of a generation on, and is progress") {
  auto page = std::make_unique<ControlPage>();
  Recorder const recorder(*page, 1, true);
  note_checkpoint(*page, 5ms);  // it loads one
  CHECK(page->checkpointing == 5'000'000);
  CHECK(page->last_step == 0);
  note_step(*page, 1);
  CHECK(page->checkpointing == 0);
  note_checkpoint(*page, 2ms);
  CHECK(page->last_step == page->alive);
  CHECK(page->last_step > page->first_step);
  note_checkpoint(*page, 3ms);
  note_step(*page, 2);
  CHECK(page->checkpointing == 5'000'000);
  Recorder const next(*page, 2, true);
  CHECK(page->checkpointing == 0);
}

TEST_CASE("recorder: a checkpoint is as old as the state that it holds, also in the next generation") {
  auto page = std::make_unique<ControlPage>();
  Recorder const recorder(*page, 1, true);
  CHECK(page->saved == 0);
  note_saved(*page, cxxrun::TimePoint{7s});
  note_checkpoint(*page, 5ms);
  Recorder const next(*page, 2, true);
  CHECK(page->saved == 7'000'000'000);
}

TEST_CASE("recorder: a second Communicator shows that the process is alive, and nothing else") {
  auto page = std::make_unique<ControlPage>();
  Recorder first(*page, 4, true);
  first.entered(kCall);
  Recorder second(*page, 4, false);
  page->alive = 0;
  second.entered(kCall);
  second.done();
  CHECK(page->alive > 0);
  CHECK(page->entered == 1);
  CHECK(page->done == 0);
}

TEST_CASE("recorder: who waits in a group does not compute, nor does one whose call there has failed") {
  auto page = std::make_unique<ControlPage>();
  auto const elsewhere = [&page] { return cxxrun::worker::read_figures(*page).elsewhere; };
  Recorder const first(*page, 4, true);
  first.waits();  // it is counted
  CHECK_FALSE(elsewhere());
  Recorder const group(*page, 4, false);
  Recorder const other(*page, 4, false);
  group.waits();
  CHECK(elsewhere());
  other.waits();
  other.goes_on();
  CHECK(elsewhere());
  group.goes_on();
  CHECK_FALSE(elsewhere());
  group.waits();  // and fails
  CHECK(elsewhere());
  Recorder const next(*page, 5, true);
  CHECK_FALSE(elsewhere());
  Recorder().waits();
}

TEST_CASE("recorder: the first peer that a Communicator of a generation gives up is noted, and no other") {
  using cxxrun::PeerFailure;
  auto page = std::make_unique<ControlPage>();
  auto const lost = [&page] { return cxxrun::worker::read_loss(*page, 4); };
  auto const failed = [](int rank, PeerFailure::Why why) { return PeerFailure(why, rank, "", 4, 0us); };
  Recorder const first(*page, 4, true);
  CHECK_FALSE(lost());
  first.lost(failed(-1, PeerFailure::Why::stopped));  // the launcher has ended the generation
  CHECK_FALSE(lost());
  Recorder const second(*page, 4, false);
  second.lost(failed(7, PeerFailure::Why::timeout));
  first.lost(failed(2, PeerFailure::Why::left));
  CHECK(lost() == cxxrun::worker::Loss{7, PeerFailure::Why::timeout});
  Recorder const next(*page, 5, true);
  CHECK_FALSE(cxxrun::worker::read_loss(*page, 5));
  next.lost(failed(2, PeerFailure::Why::left));
  CHECK(cxxrun::worker::read_loss(*page, 5) == cxxrun::worker::Loss{2, PeerFailure::Why::left});
  CHECK_FALSE(lost());
}

TEST_CASE("recorder: without a page it notes nothing") {
  Recorder recorder;
  recorder.lost(cxxrun::PeerFailure(cxxrun::PeerFailure::Why::died, 1, "", 1, 0us));
  recorder.entered(kCall);
  recorder.done();
}
