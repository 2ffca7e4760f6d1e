// Checkpoint: saving and loading, and generations.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/checkpoint_scratch.hpp"
#include "tests/support/ranks.hpp"

using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using cxxrun::bytes_of;
using cxxrun::Checkpoint;
using cxxrun::Errc;

TEST_CASE("checkpoint: what was saved is loaded, and only the last k stay", "[process]") {
  Scratch const scratch;
  Checkpoint checkpoint({.directory = scratch.at("ckpt"), .model = "m", .keep = 2}, 3);
  CHECK_FALSE(checkpoint.latest());
  CHECK_FALSE(checkpoint.saved_step());

  for (std::uint64_t step = 10; step <= 50; step += 10) {
    save(checkpoint, step);
  }

  auto const loaded = checkpoint.latest();
  REQUIRE(loaded);
  CHECK(loaded->step == 50);
  CHECK(loaded->generation == 3);
  CHECK(loaded->path == scratch.at("ckpt/" + step_file(50)));
  CHECK(right(*loaded));
  CHECK(loaded->skipped.empty());
  CHECK(checkpoint.saved_step() == 50);
  CHECK(files_in(scratch.at("ckpt")) == std::set<std::string>{"generation", "lock", step_file(40), step_file(50)});
  CHECK(error_of([&] { (void)loaded->blob("missing"); }).code == Errc::not_found);
}

TEST_CASE("checkpoint: no blobs, empty blobs and a replaced step", "[process]") {
  Scratch const scratch;
  Checkpoint checkpoint({.directory = scratch.path, .model = ""}, 0);
  checkpoint.save(1, {});
  CHECK(checkpoint.latest()->blobs.empty());
  checkpoint.save(1, {{"", {}}, {"empty", {}}});
  CHECK(checkpoint.latest()->blob("empty").empty());
  save(checkpoint, 1, 300'000);  // several chunks
  CHECK(right(*checkpoint.latest()));
  CHECK(checkpoint.latest()->blob("weights").size() == 2'400'000);
}

TEST_CASE("checkpoint: an older generation is refused, at once and in the middle of its life", "[process]") {
  Scratch const scratch;
  Checkpoint old({.directory = scratch.path, .model = "m", .run = "a"}, 6);
  save(old, 1);
  Checkpoint fresh({.directory = scratch.path, .model = "m", .run = "a"}, 7);
  auto const error = error_of([&] { save(old, 2); });
  CHECK(error.code == Errc::refused);
  CHECK(has(error.message(), scratch.path));
  CHECK(has(error.message(), "generation 7 of run a owns the directory, and this process is of generation 6"));
  CHECK(old.saved_step() == 1);
  CHECK(old.latest()->step == 1);  // reading still works
  save(fresh, 2);
  CHECK(error_of([&] { Checkpoint({.directory = scratch.path, .model = "m", .run = "a"}, 6); }).code == Errc::refused);
  CHECK(files_in(scratch.path) == std::set<std::string>{"generation", "lock", step_file(1), step_file(2)});
}

TEST_CASE("checkpoint: a generation that comes while an older one writes stops its rename", "[process]") {
  using namespace cxxrun::checkpoint;  // NOLINT(google-build-using-namespace)
  Scratch const scratch;
  Directory const directory(scratch.path);
  std::string name;
  auto file = directory.make_temporary(5, name);
  directory.write(file, name, {5, 6, "m", {}}, {});
  Checkpoint const fresh({.directory = scratch.path, .model = "m", .run = "a"}, 7);
  CHECK(files_in(scratch.path).count(name) == 1);  // its writer lives
  CHECK(error_of([&] { directory.admit({"a", 6}, When::saving); }).code == Errc::refused);
  file.reset();
  Checkpoint const later({.directory = scratch.path, .model = "m", .run = "a"}, 8);
  CHECK(files_in(scratch.path) == std::set<std::string>{"generation", "lock"});
}

TEST_CASE("checkpoint: a save under way when a newer generation comes is refused", "[process]") {
  Scratch const scratch;
  Checkpoint::Options const options{.directory = scratch.path, .model = "m", .run = "a"};
  auto const writer = [&](int) {
    Checkpoint old(options, 6);
    auto const error = error_of([&] {
      for (std::uint64_t step = 1;; ++step) {
        save(old, step, 2'000'000);
      }
    });
    return error.message();
  };
  cxxrun::checkpoint::Directory const directory(scratch.path);
  std::uint64_t highest = 0;
  auto const ends = cxxrun::test::run_ranks(1, writer, [&](std::vector<pid_t> const& pids) {
    for (bool caught = false; !caught;) {  // stopped in the middle of a write, without the lock
      kill(pids[0], SIGSTOP);
      int status = 0;
      waitpid(pids[0], &status, WUNTRACED);
      if (!WIFSTOPPED(status)) {
        return;
      }
      auto const names = files_in(scratch.path);
      caught = std::any_of(names.begin(), names.end(), cxxrun::checkpoint::is_temporary) &&
               error_of([&] { (void)directory.lock(std::chrono::milliseconds(0)); }).context.empty();
      if (caught) {
        auto const steps = directory.steps();
        highest = steps.empty() ? 0 : steps[0];
        Checkpoint const fresh(options, 7);
      }
      kill(pids[0], SIGCONT);
      usleep(1000);
    }
  });
  CHECK(has(ends[0].said, "generation 7 of run a owns the directory"));
  auto const steps = directory.steps();
  CHECK((steps.empty() ? 0 : steps[0]) == highest);
}

TEST_CASE("checkpoint: a new run begins its generations anew and takes the directory over", "[process]") {
  Scratch const scratch;
  Checkpoint before({.directory = scratch.path, .model = "m", .run = "7.0"}, 9);
  save(before, 1);
  setenv("TORCHELASTIC_RUN_ID", "7.0.1", 1);
  Checkpoint after({.directory = scratch.path, .model = "m"}, 1);
  unsetenv("TORCHELASTIC_RUN_ID");
  save(after, 2);
  CHECK(has(error_of([&] { save(before, 3); }).message(), "generation 1 of run 7.0.1 owns the directory"));
  CHECK(after.latest()->step == 2);
}

TEST_CASE("checkpoint: writers of one generation do not tear each other's files", "[process]") {
  Scratch const scratch;
  Checkpoint const reader({.directory = scratch.path, .model = "m"}, 1);
  auto const ends = cxxrun::test::run_ranks(4, [&](int rank) {
    Checkpoint checkpoint({.directory = scratch.path, .model = "m", .keep = 2}, 1);
    for (std::uint64_t step = 1; step <= 50; ++step) {
      if (rank < 2) {
        save(checkpoint, step, 5000);
      } else if (auto const loaded = checkpoint.latest(); loaded && (!right(*loaded) || !loaded->skipped.empty())) {
        return std::string("wrong");
      }
    }
    return std::string("done");
  });
  for (auto const& end : ends) {
    CHECK(end.said == "done");
  }
  CHECK(reader.latest()->step == 50);
  CHECK(files_in(scratch.path) == std::set<std::string>{"generation", "lock", step_file(49), step_file(50)});
}

TEST_CASE("checkpoint: a holder that hangs is named", "[process]") {
  Scratch const scratch;
  cxxrun::checkpoint::Directory const directory(scratch.path);
  auto const held = directory.lock();
  auto const error = error_of([&] { (void)directory.lock(std::chrono::milliseconds(1)); });
  CHECK(error.code == Errc::in_use);
  CHECK(has(error.context, "pid " + std::to_string(getpid())));
}

TEST_CASE("checkpoint: a child that outlives its parent's save holds no lock", "[process]") {
  Scratch const scratch;
  cxxrun::checkpoint::Directory const directory(scratch.path);
  pid_t child = 0;
  {
    auto const held = directory.lock();
    child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
  }
  CHECK(error_of([&] { (void)directory.lock(std::chrono::milliseconds(0)); }).context.empty());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("checkpoint: save_async copies, reports a step when it is on disk, and passes errors on", "[process]") {
  Scratch const scratch;
  Checkpoint checkpoint({.directory = scratch.path, .model = "m", .run = "a"}, 1);
  auto weights = weights_of(1, 100'000);
  std::array<std::uint64_t, 1> state{1};
  for (std::uint64_t step = 1; step <= 5; ++step) {
    checkpoint.save_async(step, {{"weights", bytes_of(weights)}, {"state", bytes_of(state)}});
    weights = weights_of(step + 1, 100'000);  // at once: the copy is saved
    state[0] = step + 1;
    if (auto const saved = checkpoint.saved_step()) {
      CHECK(checkpoint.latest()->step >= *saved);
    }
  }
  checkpoint.wait();
  CHECK(checkpoint.saved_step() == 5);
  REQUIRE(right(*checkpoint.latest()));

  Checkpoint const newer({.directory = scratch.path, .model = "m", .run = "a"}, 2);
  checkpoint.save_async(6, {{"state", bytes_of(state)}});
  CHECK(error_of([&] { checkpoint.wait(); }).code == Errc::refused);
  checkpoint.wait();  // thrown only once
  checkpoint.save_async(7, {});
  CHECK(error_of([&] { checkpoint.save_async(8, {}); }).code == Errc::refused);
  CHECK(checkpoint.saved_step() == 5);
  checkpoint.save_async(9, {});  // its failure is lost with the object
  Checkpoint const moved = std::move(checkpoint);
  CHECK(moved.latest()->step == 5);
}

TEST_CASE("checkpoint: a step below the latest is kept, and damaged ones below the kept go", "[process]") {
  Scratch const scratch;
  Checkpoint checkpoint({.directory = scratch.path, .model = "m", .keep = 2}, 1);
  for (std::uint64_t const step : {10U, 20U, 30U}) {
    save(checkpoint, step);
  }
  write_file(scratch.at(step_file(15)), "damaged");
  write_file(scratch.at(step_file(25)), "damaged");
  save(checkpoint, 5);
  CHECK(files_in(scratch.path) == std::set<std::string>{"generation", "lock", step_file(5), step_file(30)});
  CHECK(checkpoint.latest()->step == 30);
}
