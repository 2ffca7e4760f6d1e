// Checkpoint: damaged files, dying writers, unusable disks and directories.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/checkpoint_scratch.hpp"
#include "tests/support/fixtures.hpp"
#include "tests/support/ranks.hpp"

using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using cxxrun::Checkpoint;
using cxxrun::Errc;
namespace fs = std::filesystem;

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
  CHECK(has(loaded->skipped[3], "is of step 1"));
}

TEST_CASE("checkpoint: a directory with a checkpoint's name makes way for it and is kept", "[process]") {
  Scratch const scratch;
  auto const ends = cxxrun::test::run_ranks(1, [&](int) {
    bool const user = geteuid() != 0 || (chmod(scratch.path.c_str(), 0777) == 0 && seteuid(65534) == 0);
    Checkpoint checkpoint({.directory = scratch.path, .model = "m"}, 1);
    save(checkpoint, 1);
    fs::create_directory(scratch.at(step_file(9)));
    write_file(scratch.at(step_file(9) + "/file"), "as it was");
    chmod(scratch.at(step_file(9)).c_str(), 0);  // an unreadable file is not ignored either
    auto const before = checkpoint.latest();
    Checkpoint const again({.directory = scratch.path, .model = "m"}, 1);
    auto const told = before && before->step == 1 && before->skipped.size() == 1 ? before->skipped[0] : "nothing";
    save(checkpoint, 9);
    chmod(scratch.at(step_file(9) + ".directory").c_str(), 0700);
    return std::string(user && checkpoint.latest()->step == 9 ? told : "not saved");
  });
  CHECK(ends[0].said == scratch.at(step_file(9)) + ": is not a file");
  CHECK(cxxrun::testing::read_file(scratch.at(step_file(9) + ".directory/file")) == "as it was");
}

TEST_CASE("checkpoint: when all files are damaged a run begins anew, or with refuse_damaged does not", "[process]") {
  Scratch const scratch;
  auto const found = [&](bool refuse) {
    Checkpoint const checkpoint({.directory = scratch.path, .model = "m", .refuse_damaged = refuse}, 1);
    bool some = false;
    auto const error = error_of([&] { some = checkpoint.latest().has_value(); });
    return error.context.empty() ? (some ? "one" : "none") : error.context;
  };
  CHECK(found(true) == "none");  // an empty directory is where a run begins
  for (std::uint64_t const step : {1, 2}) {
    write_file(scratch.at(step_file(step)), "torn");
  }
  CHECK(found(false) == "none");
  CHECK(found(true) == "checkpoint directory \"" + scratch.path +
                           "\": all of its checkpoints are damaged: " + scratch.at(step_file(2)) +
                           ": is not a checkpoint file (and 1 more); restore one, or use an empty directory to start " +
                           "from scratch");
  Checkpoint whole({.directory = scratch.path, .model = "m"}, 1);
  save(whole, 1);
  CHECK(found(true) == "one");
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
    usleep(static_cast<useconds_t>(random() % 10'000));  // any moment is good: this waits for nothing
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    while (read(ends[0], &said, sizeof said) > 0) {
    }
    close(ends[0]);

    auto const loaded = Checkpoint(options, static_cast<std::uint64_t>(round)).latest();
    REQUIRE((loaded ? loaded->step : 0) >= std::max(last, said));  // every save that has returned is there
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

TEST_CASE("checkpoint: a checkpoint of another model is refused before anything is removed", "[process]") {
  Scratch const scratch;
  Checkpoint one({.directory = scratch.path, .model = "one", .keep = 1}, 1);
  save(one, 1);
  auto const error = error_of([&] { Checkpoint({.directory = scratch.path, .model = "two", .keep = 1}, 2); });
  CHECK(error.code == Errc::usage);
  CHECK(error.message() ==
        scratch.at(step_file(1)) + " is a checkpoint of model \"one\", not of \"two\": name another directory");
  save(one, 2);  // the refused one did not take the directory over
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
  CHECK(has(open(scratch.at("file")).context, "a file is in its way"));
  CHECK(open(scratch.at("file/ckpt")).code == Errc::usage);
  CHECK(open(scratch.at("no/ckpt")).code == Errc::not_found);
  CHECK(has(open(scratch.at("no/ckpt/")).context, "\"" + scratch.at("no") + "\" does not exist: make it"));
  CHECK(has(open(scratch.path, 0).context, "keep is 0"));
  write_file(scratch.at("generation"), "7\n");
  CHECK(has(open(scratch.path).context, scratch.at("generation") + " is not a valid claim"));
}

TEST_CASE("checkpoint: links in the place of what writers share lead nowhere", "[process]") {
  Scratch const scratch;
  write_file(scratch.at("precious"), "as it was");
  fs::create_directory(scratch.at("ckpt"));
  std::string const name = GENERATE("lock", "generation", "generation.tmp");
  bool const hard = GENERATE(false, true);
  auto const link = scratch.at("ckpt/" + name);
  hard ? fs::create_hard_link(scratch.at("precious"), link) : fs::create_symlink(scratch.at("precious"), link);
  auto const error = error_of([&] { Checkpoint({.directory = scratch.at("ckpt"), .model = "m"}, 1); });
  CHECK(cxxrun::testing::read_file(scratch.at("precious")) == "as it was");
  if (name == "generation.tmp") {
    CHECK(error.message().empty());  // removed, like what a dead writer has left
  } else if (name == "generation" && hard) {
    CHECK(has(error.context, link + " is not a valid claim of a checkpoint directory"));
  } else {
    CHECK(has(error.context, link + " is a symbolic link or not a regular file: remove it"));
  }
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
  CHECK(has(ends[0].said, scratch.at("other")));
  CHECK(has(ends[1].said, scratch.at("ckpt/" + step_file(1))));
  for (auto const& end : ends) {
    CHECK(has(end.said, "let this user read and write there, or name another directory: Permission denied"));
  }
}

TEST_CASE("checkpoint: where everybody may write a stranger's file is passed over", "[process]") {
  if (geteuid() != 0) {
    WARN("skipped: only root can become somebody else");
    return;
  }
  mode_t const readable = GENERATE(0644, 0600);
  Scratch const scratch;
  chmod(scratch.path.c_str(), 01777);
  auto const ends = cxxrun::test::run_ranks(1, [&](int) {
    if (seteuid(1500) != 0) {
      return std::string("seteuid failed");
    }
    Checkpoint checkpoint({.directory = scratch.path, .model = "m"}, 1);
    save(checkpoint, 1);
    save(checkpoint, 2);
    if (seteuid(0) != 0 || chown(scratch.at(step_file(2)).c_str(), 65534, 65534) != 0 ||
        chmod(scratch.at(step_file(2)).c_str(), readable) != 0 || seteuid(1500) != 0) {
      return std::string("cannot give it away");
    }
    return "step " + std::to_string(checkpoint.latest()->step);
  });
  CHECK(ends[0].said == "step 1");
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
    CHECK(has(error.context, " of 800097 bytes does not fit: free some space"));
    CHECK(files_in(scratch.path) == before);
    CHECK(checkpoint.saved_step() == 1);
    CHECK(right(*checkpoint.latest()));
    save(checkpoint, 3, 40'000);  // works again when there is space
    CHECK(checkpoint.latest()->step == 3);
  }
  umount(scratch.path.c_str());
}

TEST_CASE("checkpoint: a file larger than ulimit -f allows is a failure, not a signal", "[process]") {
  Scratch const scratch;
  auto const ends = cxxrun::test::run_ranks(1, [&](int) {
    (void)std::signal(SIGXFSZ, SIG_DFL);
    Checkpoint checkpoint({.directory = scratch.path, .model = "m"}, 1);
    save(checkpoint, 1);
    rlimit const most{4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &most) != 0) {
      return std::string("no limit");
    }
    auto const error = error_of([&] { save(checkpoint, 2, 1000); });
    save(checkpoint, 3);
    return std::to_string(error.os_errno == EFBIG ? checkpoint.latest()->step : 0) + " " + error.context;
  });
  CHECK(ends[0].returned());
  CHECK(ends[0].said.find("3 on ") == 0);
  CHECK(has(ends[0].said, " is larger than a file may be: raise the limit of file sizes (ulimit -f)"));
  CHECK(files_in(scratch.path) == std::set<std::string>{"generation", "lock", step_file(1), step_file(3)});
}

TEST_CASE("checkpoint: a directory that ulimit -f does not let it claim is a failure, not a signal", "[process]") {
  Scratch const scratch;
  auto const ends = cxxrun::test::run_ranks(1, [&](int) {
    (void)std::signal(SIGXFSZ, SIG_DFL);
    Checkpoint({.directory = scratch.path, .model = "m", .run = "1"}, 1);
    rlimit const most{200, 200};
    if (setrlimit(RLIMIT_FSIZE, &most) != 0) {
      return std::string("no limit");
    }
    std::string const run(200, 'r');
    auto const error = error_of([&] { Checkpoint({.directory = scratch.path, .model = "m", .run = run}, 1); });
    return std::string(error.os_errno == EFBIG ? "refused" : error.context);
  });
  CHECK(ends[0].said == "refused");
  CHECK(cxxrun::testing::read_file(scratch.at("generation")) == "generation 1 of run 1\n");
}
