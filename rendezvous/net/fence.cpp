#include "rendezvous/net/fence.hpp"

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "rendezvous/net/key_ring.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/path_owners.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/run_blocking.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kLongest = 4096;  ///< bytes of a decree's text
constexpr std::size_t kMark = 16;
constexpr int kTries = 3;  ///< over NFS an open may fail with a stale handle at first
constexpr std::chrono::seconds kLongestClaim(10);
constexpr Millis kFarewell{2000};

std::string hex(std::uint64_t number) {
  std::array<char, 17> text{};
  (void)std::snprintf(text.data(), text.size(), "%016" PRIx64, number);
  return text.data();
}

std::string file_name(std::string const& text) {
  std::string name;
  for (char const c : text) {
    bool const plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || (c == '.' && !name.empty());
    auto const byte = static_cast<unsigned char>(c);
    name += plain ? std::string(1, c) : "%" + hex(byte).substr(14);
  }
  return name.empty() ? "%" : name;
}

std::string name_of(FencePlace const& place) {
  return file_name(place.run_id) + (place.mark.empty() ? "" : "-" + place.mark);
}

std::string run_dir(FencePlace const& place) {
  return place.dir + "/" + name_of(place);
}

std::string name_in_run(FencePlace const& place, std::uint64_t after) {
  return "after-" + std::to_string(after) + "-" + hex(place.of);
}

Fenced trouble(std::uint64_t after, FencePlace const& place, std::string const& what, int os_errno) {
  return {after, std::nullopt,
          "--fence " + place.dir + ": " + what + ": " + std::generic_category().message(os_errno) +
              "; give a directory that every node can write to"};
}

/// Why claims in the directory are not reliable; "" = they are. A user who can replace it, or a run's directory in it,
/// can let both sides of a partition find it empty.
std::string weakness(os::PathWalk const& base) {
  struct stat facts {};
  if (::fstat(base.folder.get(), &facts) != 0) {
    return "cannot be examined: " + std::generic_category().message(errno);
  }
  if (!os::is_root(facts.st_uid) && !base.folder.is_own(facts)) {
    return "belongs to uid " + std::to_string(facts.st_uid) + ", who could let both sides of a partition continue";
  }
  if (os::others_may_write(base.folder.get(), facts) && (facts.st_mode & S_ISVTX) == 0) {
    return "others may rename what is in it, and could let both sides of a partition continue: chmod +t, or chmod go-w";
  }
  if (auto const* const loose = os::first_loose(base.steps, ::geteuid())) {
    return "others can put another directory in the place of " + loose->path +
           ", and could let both sides of a partition continue";
  }
  return "";
}

/// Whether only this user can write there, and so decide which half of a job continues.
bool is_private(os::Folder const& dir) {
  struct stat facts {};
  return ::fstat(dir.get(), &facts) == 0 && facts.st_uid == ::geteuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// What the file holds. Opened again, since a cached lookup may say that it is absent when it is not.
Fenced read_winner(FencePlace const& place, std::uint64_t after, os::Folder const& dir) {
  std::string const path = fence_path(place, after);
  os::UniqueFd file;
  for (int i = 0; i < kTries && !file; ++i) {
    file = dir.open_file(name_in_run(place, after));
  }
  if (!file) {
    return trouble(after, place, "cannot read " + path, errno);
  }
  auto const text = os::read_all(file.get(), kLongest);
  if (!text) {
    return trouble(after, place, "cannot read " + path, errno);
  }
  auto const decoded = decode<ToAgent>(*text);
  auto const* const held = decoded ? std::get_if<Propose>(&*decoded) : nullptr;
  if (held == nullptr || held->decree.after != after) {
    return {after, std::nullopt, path + " holds no decision after generation " + std::to_string(after)};
  }
  return {after, AcceptedDecree{held->ballot, held->decree}, {}};
}

}  // namespace

std::string fence_mark(std::optional<Key> const& key, std::string const& run_id) {
  return key ? key_text(derive(*key, "cxxrun fence", run_id)).substr(0, kMark) : "";
}

std::string fence_path(FencePlace const& place, std::uint64_t after) {
  return run_dir(place) + "/" + name_in_run(place, after);
}

Result<void> check_fence(std::string const& dir, std::string const& unique) {
  auto const refusal = [&](std::string const& what) {
    return fail(Errc::environment, printable(dir, 200) + ": " + what);
  };
  auto const error = [](int number) { return ": " + std::generic_category().message(number); };
  auto const base = os::walk(dir, false);
  if (!base.folder) {
    return refusal(errno == ENOTDIR ? "is not a directory"
                                    : "the directory must exist, on a file system that all nodes share" + error(errno));
  }
  if (auto const weak = weakness(base); !weak.empty()) {
    return refusal(weak + "; or give a directory of your own, as in your home");
  }
  std::string const file = ".cxxrun-" + unique;
  std::string const second = file + "-link";
  auto const opened = base.folder.create(file);
  if (!opened) {
    return refusal("cannot make a file there" + error(errno));
  }
  bool const linked = base.folder.link(file, second);
  int const why = errno;
  // Some network file systems report an error for a link that was made: the count tells.
  struct stat facts {};
  bool const made = ::fstat(opened.get(), &facts) == 0 && facts.st_nlink == 2;
  base.folder.remove(second);
  base.folder.remove(file);
  return made ? Result<void>()
              : refusal("hard links do not work there, use another file system" + (linked ? "" : error(why)));
}

Fenced claim_fence(FencePlace const& place, AcceptedDecree const& value) {
  std::uint64_t const after = value.decree.after;
  std::string const path = fence_path(place, after);
  auto const base = os::walk(place.dir, false);
  if (auto const weak = base.folder ? weakness(base) : ""; !weak.empty()) {
    return trouble(after, place, weak, EPERM);
  }
  os::Folder const dir = base.folder ? base.folder.make_below(name_of(place), 0700) : os::Folder();
  if (!dir && errno != EPERM) {
    return trouble(after, place, "cannot make " + run_dir(place), errno);
  }
  if (!dir || !is_private(dir)) {
    return trouble(after, place, run_dir(place) + " belongs to another user or may be written by others", EPERM);
  }
  std::string const mine = "claim-" + random_hex(32);
  auto file = dir.create(mine);
  if (!file) {
    return trouble(after, place, "cannot make " + run_dir(place) + "/" + mine, errno);
  }
  bool const written = os::write_all(file.get(), encode(ToAgent(Propose{value.ballot, value.decree})));
  if (!written || ::fsync(file.get()) != 0) {
    int const why = errno;
    dir.remove(mine);
    return trouble(after, place, "cannot write " + run_dir(place) + "/" + mine, why);
  }
  bool won = dir.link(mine, name_in_run(place, after));
  int const why = errno;
  if (!won) {  // the server's answer may be lost: a link count of 2 says that the link was made all the same
    struct stat status {};
    won = ::fstat(file.get(), &status) == 0 && status.st_nlink == 2;
  }
  file.reset();
  dir.remove(mine);
  if (won) {
    return {after, value, {}};
  }
  return why == EEXIST ? read_winner(place, after, dir) : trouble(after, place, "cannot link " + path, why);
}

void remove_fences(FencePlace const& place) {
  auto const base = os::Folder::open(place.dir);
  auto const dir = base ? base.below(name_of(place)) : os::Folder();
  auto const names = dir && is_private(dir) ? dir.names() : std::nullopt;
  if (!names) {
    return;
  }
  for (auto const& name : *names) {
    dir.remove(name);
  }
  base.remove_directory(name_of(place));
}

FenceClaims::FenceClaims(boost::asio::io_context& io, std::string dir, std::shared_ptr<KeyRing> keys)
    : io_(io), dir_(std::move(dir)), keys_(std::move(keys)) {}

FencePlace FenceClaims::place(std::string const& run_id, std::uint64_t of) const {
  return {dir_, run_id, keys_ ? fence_mark(keys_->own(), run_id) : "", of};
}

FenceClaims::~FenceClaims() {
  if (removing_) {
    removing_->join_until(Clock::now() + kFarewell);
  }
}

void FenceClaims::claim(std::string const& run_id, std::uint64_t of, AcceptedDecree const& value,
                        std::function<void(Fenced)> done) {
  if (dir_.empty()) {
    done({value.decree.after, std::nullopt, "no --fence was given"});
    return;
  }
  os::run_blocking<Fenced>(
      io_, "cxxrun-fence", kLongestClaim, [where = place(run_id, of), value] { return claim_fence(where, value); },
      {value.decree.after, std::nullopt, "--fence " + dir_ + ": the file system does not answer; give one that does"},
      [alive = std::weak_ptr(alive_), done = std::move(done)](Fenced fenced) {
        if (!alive.expired()) {
          done(std::move(fenced));
        }
      });
}

void FenceClaims::remove(std::string const& run_id) {  // if no thread can be started the files stay, which does no harm
  if (!dir_.empty()) {
    removing_ = os::BoundedThread::start("cxxrun-fence", [where = place(run_id, 0)] { remove_fences(where); });
  }
}

}  // namespace cxxrun::rendezvous
