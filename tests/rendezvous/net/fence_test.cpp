#include "rendezvous/net/fence.hpp"

#include <filesystem>
#include <fstream>
#include <grp.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/acl.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_world.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/text.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::has;
namespace fs = std::filesystem;

namespace {

class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "cxxrun-fence-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Scratch() { fs::remove_all(path_); }
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  [[nodiscard]] FencePlace place(std::string const& run_id = "job", std::uint64_t of = 1) const {
    return {path_, run_id, "", of};
  }
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

AcceptedDecree value(std::uint32_t proposer, std::uint64_t after = 4) {
  AcceptedDecree value;
  value.ballot = {2, proposer};
  value.decree.after = after;
  value.decree.number = after + 1;
  value.decree.size = 2;
  value.decree.coordinator = proposer;
  value.decree.members = 0xfedcba9876543210ULL + proposer;
  return value;
}

}  // namespace

TEST_CASE("of any number of claimers at once one wins, and all learn who") {
  Scratch const scratch;
  auto const ends = test::run_ranks(8, [&](int rank) {
    auto const fenced = claim_fence(scratch.place(), value(static_cast<std::uint32_t>(rank)));
    return fenced.holds ? std::to_string(fenced.holds->ballot.rank) : fenced.why;
  });
  for (auto const& end : ends) {
    CHECK(end.returned());
    CHECK(end.said == ends[0].said);
  }
  auto const winner = static_cast<std::uint32_t>(std::stoul(ends[0].said));
  CHECK(claim_fence(scratch.place(), value(99)).holds == value(winner));
  CHECK(std::distance(fs::recursive_directory_iterator(scratch.path()), {}) == 2);  // no claim is left behind
}

TEST_CASE("another decision, another run and other members have files of their own") {
  Scratch const scratch;
  CHECK(claim_fence(scratch.place(), value(0)).holds == value(0));
  CHECK(claim_fence(scratch.place(), value(1, 5)).holds == value(1, 5));
  CHECK(claim_fence(scratch.place("other"), value(2)).holds == value(2));
  CHECK(claim_fence(scratch.place("job", 2), value(3)).holds == value(3));
  CHECK(claim_fence(scratch.place(), value(4)).holds == value(0));
  remove_fences(scratch.place());
  CHECK(claim_fence(scratch.place(), value(4)).holds == value(4));
  CHECK(claim_fence(scratch.place("other"), value(4)).holds == value(2));
}

TEST_CASE("any run id is a file name") {
  std::set<std::string> paths;
  for (std::string const id : {"", "/", "..", ".", "../job", "a/b", "a%2fb", "a b", "job\n"}) {
    Scratch const scratch;
    CHECK(claim_fence(scratch.place(id), value(0)).holds == value(0));
    CHECK(fs::path(fence_path(scratch.place(id), 4)).parent_path().parent_path() == scratch.path());
    CHECK(paths.insert(fence_path({"", id, "", 0}, 1)).second);
  }
}

TEST_CASE("a directory that is none is named, with what to give instead") {
  for (std::string const dir : {"/nowhere/at/all", "/proc/self/status", "/proc"}) {
    auto const fenced = claim_fence({dir, "job", "", 1}, value(0));
    INFO(fenced.why);
    CHECK_FALSE(fenced.holds);
    CHECK(fenced.after == 4);
    CHECK(has(fenced.why, "--fence " + dir + ": cannot make "));
    CHECK(has(fenced.why, "; give a directory that every node can write to"));
  }
}

TEST_CASE("a directory of the run that somebody else could have written to decides nothing") {
  Scratch const scratch;
  std::string const run = scratch.path() + "/job";
  std::string why = "belongs to another user or may be written by others";
  SECTION("it may be written by others") {
    fs::create_directory(run);
    fs::permissions(run, fs::perms::all);
  }
  SECTION("it is another user's") {
    fs::create_directory(run);
    if (::chown(run.c_str(), 65534, 65534) != 0) {
      WARN("skipped: only root can give a directory away");
      return;
    }
  }
  SECTION("it is a link to one of ours") {
    fs::create_directory(scratch.path() + "/other");
    fs::create_directory_symlink("other", run);
    why = "cannot make ";
  }
  auto const fenced = claim_fence(scratch.place(), value(0));
  INFO(fenced.why);
  CHECK_FALSE(fenced.holds);
  CHECK(has(fenced.why, why));
}

TEST_CASE("where others can rename, no claim is made and the start is refused; elsewhere one of two claims holds") {
  if (::geteuid() != 0) {
    WARN("skipped: only root can be two users");
    return;
  }
  constexpr uid_t kVictim = 1500, kAttacker = 65534;
  constexpr int kTries = 50;
  struct Kind {
    uid_t owner;
    mode_t mode;
    mode_t around;
    std::string refusal;  ///< "" = accepted
  };
  auto const kind =
      GENERATE(Kind{kVictim, 0777, 0755, "others may rename what is in it"},
               Kind{kVictim, 02775, 0755, "others may rename what is in it"},
               Kind{kAttacker, 01777, 0755, "belongs to uid 65534"}, Kind{kVictim, 0700, 0777, "in the place of "},
               Kind{kVictim, 0700, 02775, "in the place of "}, Kind{kVictim, 0700, 01777, ""},
               Kind{kVictim, 01777, 0755, ""}, Kind{0, 01777, 0755, ""});
  Scratch const scratch;
  std::string const around = scratch.path() + "/around", dir = around + "/fence", end = scratch.path() + "/end";
  fs::create_directories(dir);
  auto const give = [](std::string const& path, uid_t owner, mode_t mode) {
    REQUIRE(::chown(path.c_str(), owner, kVictim) == 0);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  };
  give(scratch.path(), 0, 01777);
  give(around, 0, kind.around);
  give(dir, kind.owner, kind.mode);
  auto const ends = test::run_ranks(2, [&](int rank) -> std::string {
    if (::setgroups(0, nullptr) != 0 || ::setegid(kVictim) != 0 || ::seteuid(rank == 0 ? kVictim : kAttacker) != 0) {
      return "seteuid failed";
    }
    if (rank == 1) {  // in the victim's group: moves the directory away
      for (int moved = 0; !fs::exists(end);) {
        std::error_code none;
        for (fs::directory_iterator entry(dir, none), last; !none && entry != last; entry.increment(none)) {
          auto const away = dir + "/away-" + std::to_string(moved);
          bool const job = entry->path().filename().string().starts_with("job");
          moved += job && ::rename(entry->path().c_str(), away.c_str()) == 0 ? 1 : 0;
        }
        if (::rename(dir.c_str(), (around + "/" + std::to_string(moved)).c_str()) == 0) {
          ++moved;
          ::mkdir(dir.c_str(), 0777);
        }
      }
      return "";
    }
    std::string said = check_fence(dir, "start") ? "started" : check_fence(dir, "start").error().context;
    for (int i = 0; i < kTries; ++i) {
      auto const place = FencePlace{dir, "job" + std::to_string(i), "", 1};
      auto const first = claim_fence(place, value(0));
      for (auto const until = Clock::now() + std::chrono::seconds(2);
           first.holds && !kind.refusal.empty() && fs::exists(fence_path(place, 4)) && Clock::now() < until;) {
      }  // the other side of the partition has time
      auto const second = claim_fence(place, value(1));
      if (first.holds == value(0) && second.holds == value(1)) {
        said += ", both went on";
      }
      if (kind.refusal.empty() && (first.holds != value(0) || second.holds != value(0))) {
        said += ", not the first: " + first.why + second.why;
      }
    }
    std::ofstream(end) << "";
    return said;
  });
  INFO(ends[0].said);
  CHECK_FALSE(has(ends[0].said, "both went on"));
  CHECK(kind.refusal.empty() == (ends[0].said == "started"));
  CHECK((kind.around != 0755 || has(ends[0].said, kind.refusal)));
}

TEST_CASE("a directory whose ACL lets others rename is no fence, whatever group it has") {
  Scratch const scratch;
  REQUIRE(::chmod(scratch.path().c_str(), 0775) == 0);
  if (!check_fence(scratch.path(), "a") || !test::let_write(scratch.path(), 65534)) {
    WARN("skipped: this user has no group of its own, or the file system no ACLs");
    return;
  }
  auto const checked = check_fence(scratch.path(), "a");
  REQUIRE_FALSE(checked);
  CHECK(has(checked.error().context, "others may rename what is in it"));
  CHECK_FALSE(claim_fence(scratch.place(), value(0)).holds);
  REQUIRE(::chmod(scratch.path().c_str(), 01775) == 0);
  CHECK(claim_fence(scratch.place(), value(0)).holds == value(0));
}

TEST_CASE("what cannot be a fence is said at the start, and nothing is left behind") {
  Scratch const scratch;
  CHECK(check_fence(scratch.path(), "a"));
  fs::create_directory_symlink(scratch.path(), scratch.path() + "/link");
  CHECK(check_fence(scratch.path() + "/link", "a"));
  CHECK(std::distance(fs::directory_iterator(scratch.path()), {}) == 1);
  std::ofstream(scratch.path() + "/file") << "";
  CHECK(has(check_fence(scratch.path() + "/file", "a").error().context, "/file: is not a directory"));
  CHECK(has(check_fence(scratch.path() + "/none", "a").error().context, "/none: the directory must exist"));
  CHECK(has(check_fence("/proc", "a").error().context, "/proc: cannot make a file there"));
}

TEST_CASE("the directory's name follows from the run's key: the same for all members, and for nobody else") {
  Key::Bytes bytes{};
  Key const first(bytes);
  bytes[0] = 1;
  Key const requeued(bytes);
  std::string const mark = fence_mark(first, "job");
  CHECK(mark.size() == 16);
  CHECK(mark.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(mark == fence_mark(Key(first), "job"));
  CHECK(mark != fence_mark(requeued, "job"));
  CHECK(mark != fence_mark(first, "other"));  // one coordinator may have several runs
  auto const id = id_of(first);
  CHECK(key_text(first).find(mark) == std::string::npos);
  Key::Bytes told{};
  std::copy(id.begin(), id.end(), told.begin());
  CHECK(key_text(Key(told)).substr(0, 16) != mark);  // the key's id is sent in clear
  CHECK(fence_mark(std::nullopt, "job").empty());

  Scratch const scratch;
  fs::create_directory(scratch.path() + "/job");  // made in advance by another user
  fs::permissions(scratch.path() + "/job", fs::perms::all);
  auto place = scratch.place();
  place.mark = mark;
  CHECK(claim_fence(place, value(0)).holds == value(0));
  CHECK(fs::exists(scratch.path() + "/job-" + mark));
  auto again = place;
  again.mark = fence_mark(requeued, "job");
  CHECK(claim_fence(again, value(1)).holds == value(1));
  remove_fences(place);
  CHECK_FALSE(fs::exists(scratch.path() + "/job-" + mark));
  CHECK(claim_fence(again, value(2)).holds == value(1));
}

TEST_CASE("at the end of a run nothing goes that somebody else has put in its place") {
  Scratch const scratch;
  fs::create_directory(scratch.path() + "/ours");
  std::ofstream(scratch.path() + "/ours/file") << "text";
  SECTION("a link") {
    fs::create_directory_symlink("ours", scratch.path() + "/job");
  }
  SECTION("a directory that others may write to") {
    fs::rename(scratch.path() + "/ours", scratch.path() + "/job");
    fs::permissions(scratch.path() + "/job", fs::perms::all);
  }
  remove_fences(scratch.place());
  CHECK(fs::exists(scratch.path() + "/job/file"));
}

TEST_CASE("a link in the place of a decision is not followed") {
  Scratch const scratch;
  REQUIRE(claim_fence(scratch.place("other"), value(3)).holds);
  fs::create_directory(scratch.path() + "/job");
  fs::create_symlink(fence_path(scratch.place("other"), 4), fence_path(scratch.place(), 4));
  CHECK_FALSE(claim_fence(scratch.place(), value(0)).holds);
}

TEST_CASE("a file that holds something else decides nothing") {
  Scratch const scratch;
  fs::create_directory(scratch.path() + "/job");
  auto const path = fence_path(scratch.place(), 4);
  SECTION("nothing") {
    std::ofstream(path) << "";
  }
  SECTION("half a decree") {
    auto const text = encode(ToAgent(Propose{value(0).ballot, value(0).decree}));
    std::ofstream(path) << text.substr(0, text.size() / 2);
  }
  SECTION("the decision after another generation") {
    std::ofstream(path) << encode(ToAgent(Propose{value(0).ballot, value(0, 9).decree}));
  }
  SECTION("a directory") {
    fs::create_directory(path);
  }
  auto const fenced = claim_fence(scratch.place(), value(0));
  CHECK_FALSE(fenced.holds);
  CHECK_FALSE(fenced.why.empty());
}

TEST_CASE("a claim is answered from the loop, and one whose owner is gone never") {
  Scratch const scratch;
  boost::asio::io_context io;
  std::optional<Fenced> fenced;
  {
    FenceClaims claims(io, scratch.path(), nullptr);
    claims.claim("job", 1, value(3), [&](Fenced result) { fenced = std::move(result); });
    CHECK_FALSE(fenced);
    REQUIRE(test::wait_until(io, [&] { return fenced.has_value(); }));
    CHECK(fenced->holds == value(3));
    claims.remove("job");
  }
  CHECK_FALSE(fs::exists(scratch.path() + "/job"));  // the destructor waits for the removal
  fenced.reset();
  {
    FenceClaims claims(io, scratch.path(), nullptr);
    claims.claim("job", 1, value(4), [&](Fenced result) { fenced = std::move(result); });
  }
  io.restart();
  io.run();
  CHECK_FALSE(fenced);
  FenceClaims none(io, "", nullptr);
  none.claim("job", 1, value(4), [&](Fenced result) { fenced = std::move(result); });
  REQUIRE(fenced);
  CHECK(fenced->why == "no --fence was given");
}
