#include "src/worker/recorder.hpp"

#include <memory>

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

TEST_CASE("recorder: without a page it notes nothing") {
  Recorder recorder;
  recorder.entered(kCall);
  recorder.done();
}
