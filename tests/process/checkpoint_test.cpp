#include "cxxrun/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/checkpoint/files.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"
#include "tests/support/ranks.hpp"

using cxxrun::bytes_of;
using cxxrun::Checkpoint;
using cxxrun::Errc;
using cxxrun::Failure;
namespace fs = std::filesystem;

namespace {

struct Scratch {
  std::string path = "/tmp/cxxrun_checkpoint_XXXXXX";
  Scratch() {
    if (mkdtemp(path.data()) == nullptr) {
      throw std::runtime_error("mkdtemp failed");
    }
  }
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  ~Scratch() { fs::remove_all(path); }
  [[nodiscard]] std::string at(std::string const& name) const { return path + "/" + name; }
};

// What a step's blobs hold follows from the step: data of another step, or mixed data, shows.
std::vector<std::uint64_t> weights_of(std::uint64_t step, std::size_t size = 6) {
  std::vector<std::uint64_t> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = step * 1'000'003 + i;
  }
  return values;
}

void save(Checkpoint& checkpoint, std::uint64_t step, std::size_t size = 6) {
  auto const weights = weights_of(step, size);
  std::array<std::uint64_t, 1> const state{step};
  checkpoint.save(step, {{"weights", bytes_of(weights)}, {"state", bytes_of(state)}});
}

bool right(Checkpoint::Loaded const& loaded) {
  auto const bytes = loaded.blob("weights");
  auto const weights = weights_of(loaded.step, bytes.size() / 8);
  auto const state = loaded.blob("state");
  return state.size() == 8 && std::memcmp(state.data(), &loaded.step, 8) == 0 &&
         std::memcmp(bytes.data(), weights.data(), bytes.size()) == 0;
}

std::string step_file(std::uint64_t step) {
  return cxxrun::checkpoint::file_name(step);
}

std::set<std::string> files_in(std::string const& path) {
  std::set<std::string> names;
  for (auto const& entry : fs::directory_iterator(path)) {
    names.insert(entry.path().filename());
  }
  return names;
}

void write_file(std::string const& path, std::string const& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// The Failure of `act`, or an empty one.
template <class Act>
cxxrun::Error error_of(Act const& act) {
  try {
    act();
  } catch (Failure const& failure) {
    return failure.error();
  }
  return {};
}

bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

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

TEST_CASE("checkpoint: a file torn at any byte is passed over", "[process]") {
  Scratch const scratch;
  Checkpoint checkpoint({.directory = scratch.path, .model = "m"}, 1);
  save(checkpoint, 1);
  save(checkpoint, 2);
  std::string const whole = cxxrun::testing::read_file(scratch.at(step_file(2)));
  for (std::size_t size = 0; size <= whole.size() + 1; ++size) {
    if (size == whole.size()) {
      continue;
    }
    write_file(scratch.at(step_file(2)), size < whole.size() ? whole.substr(0, size) : whole + "x");
    auto const loaded = checkpoint.latest();
    REQUIRE(loaded);
    REQUIRE(loaded->step == 1);
    REQUIRE(right(*loaded));
    REQUIRE(loaded->skipped.size() == 1);
    REQUIRE(loaded->skipped[0].find(scratch.at(step_file(2)) + ": ") == 0);
  }
}

TEST_CASE("checkpoint: a file with any one bit flipped is passed over", "[process]") {
  Scratch const scratch;
  Checkpoint checkpoint({.directory = scratch.path, .model = "m"}, 1);
  save(checkpoint, 1);
  save(checkpoint, 2);
  std::string const whole = cxxrun::testing::read_file(scratch.at(step_file(2)));
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    auto flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write_file(scratch.at(step_file(2)), flipped);
    auto const loaded = checkpoint.latest();
    REQUIRE(loaded);
    REQUIRE(loaded->step == 1);
    REQUIRE(loaded->skipped.size() == 1);
  }
}

TEST_CASE("checkpoint: things that are no files, or renamed, are passed over", "[process]") {
  Scratch const scratch;
  Checkpoint checkpoint({.directory = scratch.path, .model = "m"}, 1);
  save(checkpoint, 1);
  fs::create_directory(scratch.at(step_file(9)));
  fs::create_symlink("/nowhere", scratch.at(step_file(8)));
  REQUIRE(mkfifo(scratch.at(step_file(7)).c_str(), 0600) == 0);
  fs::copy_file(scratch.at(step_file(1)), scratch.at(step_file(6)));
  auto const loaded = checkpoint.latest();
  REQUIRE(loaded);
  CHECK(loaded->step == 1);
  REQUIRE(loaded->skipped.size() == 4);
  CHECK(contains(loaded->skipped[3], "is of step 1"));
}

TEST_CASE("checkpoint: kill -9 at any moment leaves the last whole one, and steps never go back", "[process]") {
  Scratch const scratch;
  std::mt19937_64 random(4);  // NOLINT
  std::uint64_t last = 0;
  std::uint64_t waited = 0;
  for (int round = 0; round < 40; ++round) {
    Checkpoint::Options const options{.directory = scratch.path, .model = "m", .keep = 2};
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t const pid = fork();
    if (pid == 0) {
      Checkpoint checkpoint(options, static_cast<std::uint64_t>(round));
      for (std::uint64_t step = last + 1;; ++step) {
        save(checkpoint, step, 40'000);
        (void)!write(ends[1], &step, sizeof step);
      }
    }
    close(ends[1]);
    std::uint64_t said = 0;
    for (std::uint64_t saves = random() % 3; saves > 0; --saves) {
      REQUIRE(read(ends[0], &said, sizeof said) == sizeof said);
      ++waited;
    }
    usleep(static_cast<useconds_t>(random() % 10'000));  // any moment will do: nothing is waited for here
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    while (read(ends[0], &said, sizeof said) > 0) {
    }
    close(ends[0]);

    auto const loaded = Checkpoint(options, static_cast<std::uint64_t>(round)).latest();
    REQUIRE((loaded ? loaded->step : 0) >= std::max(last, said));  // what a save has returned for is there
    if (loaded) {
      REQUIRE(right(*loaded));
      CHECK(loaded->skipped.empty());
      last = loaded->step;
    }
    for (auto const& name : files_in(scratch.path)) {
      CHECK_FALSE(cxxrun::checkpoint::is_temporary(name));
    }
  }
  CHECK(last >= waited);
}

TEST_CASE("checkpoint: an older generation is refused, at once and in the middle of its life", "[process]") {
  Scratch const scratch;
  Checkpoint old({.directory = scratch.path, .model = "m", .run = "a"}, 6);
  save(old, 1);
  Checkpoint fresh({.directory = scratch.path, .model = "m", .run = "a"}, 7);
  auto const error = error_of([&] { save(old, 2); });
  CHECK(error.code == Errc::refused);
  CHECK(contains(error.message(), scratch.path));
  CHECK(contains(error.message(), "generation 7 of run a owns the directory, and this process is of generation 6"));
  CHECK(old.saved_step() == 1);
  CHECK(old.latest()->step == 1);  // reading goes on
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
  CHECK(contains(ends[0].said, "generation 7 of run a owns the directory"));
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
  CHECK(contains(error_of([&] { save(before, 3); }).message(), "generation 1 of run 7.0.1 owns the directory"));
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
  CHECK(contains(error.context, "pid " + std::to_string(getpid())));
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
    weights = weights_of(step + 1, 100'000);  // at once: the copy is what is saved
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
  checkpoint.wait();  // told once
  checkpoint.save_async(7, {});
  CHECK(error_of([&] { checkpoint.save_async(8, {}); }).code == Errc::refused);
  CHECK(checkpoint.saved_step() == 5);
  checkpoint.save_async(9, {});  // its failure goes down with the object
  Checkpoint const moved = std::move(checkpoint);
  CHECK(moved.latest()->step == 5);
}

TEST_CASE("checkpoint: a checkpoint of another model is refused before anything is removed", "[process]") {
  Scratch const scratch;
  Checkpoint one({.directory = scratch.path, .model = "one", .keep = 1}, 1);
  save(one, 1);
  auto const error = error_of([&] { Checkpoint({.directory = scratch.path, .model = "two", .keep = 1}, 2); });
  CHECK(error.code == Errc::usage);
  CHECK(error.message() ==
        scratch.at(step_file(1)) + " is a checkpoint of model \"one\", not of \"two\": name another directory");
  save(one, 2);  // the refused one did not take the directory
  CHECK(one.latest()->step == 2);
}

TEST_CASE("checkpoint: directories that cannot be one are refused with the remedy", "[process]") {
  Scratch const scratch;
  write_file(scratch.at("file"), "x");
  auto const open = [](std::string const& path, int keep = 3) {
    return error_of([&] { Checkpoint({.directory = path, .model = "m", .keep = keep}, 1); });
  };
  CHECK(open("").code == Errc::usage);
  CHECK(open(scratch.at("file")).code == Errc::usage);
  CHECK(contains(open(scratch.at("file")).context, "a file is in its way"));
  CHECK(open(scratch.at("file/ckpt")).code == Errc::usage);
  CHECK(open(scratch.at("no/ckpt")).code == Errc::not_found);
  CHECK(contains(open(scratch.at("no/ckpt/")).context, "\"" + scratch.at("no") + "\" does not exist: make it"));
  CHECK(contains(open(scratch.path, 0).context, "keep is 0"));
  write_file(scratch.at("generation"), "7\n");
  CHECK(contains(open(scratch.path).context, scratch.at("generation") + " is not what"));
}

TEST_CASE("checkpoint: without the right to write or to read there is one clear line", "[process]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can become a user without rights");
    return;
  }
  Scratch const scratch;
  {
    Checkpoint checkpoint({.directory = scratch.at("ckpt"), .model = "m"}, 1);
    save(checkpoint, 1);
  }
  chmod(scratch.path.c_str(), 0755);
  auto const ends = cxxrun::test::run_ranks(2, [&](int rank) {
    if (rank == 1) {
      chmod(scratch.at("ckpt/" + step_file(1)).c_str(), 0600);
      chmod(scratch.at("ckpt").c_str(), 0777);
      chmod(scratch.at("ckpt/lock").c_str(), 0666);
    }
    if (seteuid(65534) != 0) {
      return std::string("seteuid failed");
    }
    std::string const where = rank == 0 ? "other" : "ckpt";
    return error_of([&] { Checkpoint({.directory = scratch.at(where), .model = "m"}, 1); }).message();
  });
  CHECK(contains(ends[0].said, scratch.at("other")));
  CHECK(contains(ends[1].said, scratch.at("ckpt/" + step_file(1))));
  for (auto const& end : ends) {
    CHECK(contains(end.said, "let this user read and write there, or name another directory: Permission denied"));
  }
}

TEST_CASE("checkpoint: a full disk loses nothing that is there", "[process]") {
  Scratch const scratch;
  if (mount("cxxrun_test", scratch.path.c_str(), "tmpfs", 0, "size=1m") != 0) {
    WARN("skipped: no tmpfs can be mounted here (not root?)");
    return;
  }
  {
    Checkpoint checkpoint({.directory = scratch.path, .model = "m"}, 1);
    save(checkpoint, 1, 50'000);
    auto const before = files_in(scratch.path);
    setenv("CXXRUN_HOST", "node7", 1);
    auto const error = error_of([&] { save(checkpoint, 2, 100'000); });
    unsetenv("CXXRUN_HOST");
    CHECK(error.code == Errc::io);
    CHECK(error.os_errno == ENOSPC);
    CHECK(error.context.find("on node7: checkpoint ") == 0);
    CHECK(contains(error.context, " of 800097 bytes does not fit: free some space"));
    CHECK(files_in(scratch.path) == before);
    CHECK(checkpoint.saved_step() == 1);
    CHECK(right(*checkpoint.latest()));
    save(checkpoint, 3, 40'000);  // goes on when there is room
    CHECK(checkpoint.latest()->step == 3);
  }
  umount(scratch.path.c_str());
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
