#include "rendezvous/net/fence.hpp"

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "rendezvous/net/key_ring.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "src/core/time.hpp"
#include "src/os/beside.hpp"
#include "src/os/fd.hpp"
#include "src/os/fd_io.hpp"
#include "src/os/random.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kLongest = 4096;  ///< of a decree's text
constexpr std::size_t kMark = 16;
constexpr int kTries = 3;  ///< a handle that another host's cache still holds may be stale once

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

os::UniqueFd open_base(FencePlace const& place) {
  return os::UniqueFd(::open(place.dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/// The directory of the run, no link to one.
os::UniqueFd open_run_dir(os::UniqueFd const& base, FencePlace const& place) {
  return os::UniqueFd(::openat(base.get(), name_of(place).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

os::UniqueFd make_run_dir(FencePlace const& place) {
  os::UniqueFd const base = open_base(place);
  if (!base || (::mkdirat(base.get(), name_of(place).c_str(), 0700) != 0 && errno != EEXIST)) {
    return {};
  }
  return open_run_dir(base, place);
}

/// Whoever writes there decides which half of a job goes on.
bool is_private(os::UniqueFd const& dir) {
  struct stat facts {};
  return ::fstat(dir.get(), &facts) == 0 && facts.st_uid == ::geteuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// What the file holds, by a fresh open: an earlier lookup may say that it is absent when it is not.
Fenced read_winner(FencePlace const& place, std::uint64_t after, os::UniqueFd const& dir) {
  std::string const path = fence_path(place, after);
  os::UniqueFd file;
  for (int i = 0; i < kTries && !file; ++i) {
    file.reset(::openat(dir.get(), name_in_run(place, after).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
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

constexpr std::chrono::seconds kLongestClaim(10);
constexpr Millis kFarewell{2000};

}  // namespace

std::string fence_mark(std::optional<Key> const& key, std::string const& run_id) {
  return key ? key_text(derive(*key, "cxxrun fence", run_id)).substr(0, kMark) : "";
}

std::string fence_path(FencePlace const& place, std::uint64_t after) {
  return run_dir(place) + "/" + name_in_run(place, after);
}

Fenced claim_fence(FencePlace const& place, AcceptedDecree const& value) {
  std::uint64_t const after = value.decree.after;
  std::string const path = fence_path(place, after);
  os::UniqueFd const dir = make_run_dir(place);
  if (!dir) {
    return trouble(after, place, "cannot make " + run_dir(place), errno);
  }
  if (!is_private(dir)) {
    return trouble(after, place, run_dir(place) + " belongs to another user or may be written by others", EPERM);
  }
  std::string const mine = "claim-" + random_hex(32);
  os::UniqueFd file(::openat(dir.get(), mine.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) {
    return trouble(after, place, "cannot make " + run_dir(place) + "/" + mine, errno);
  }
  bool const written = os::write_all(file.get(), encode(ToAgent(Propose{value.ballot, value.decree})));
  if (!written || ::fsync(file.get()) != 0) {
    int const why = errno;
    ::unlinkat(dir.get(), mine.c_str(), 0);
    return trouble(after, place, "cannot write " + run_dir(place) + "/" + mine, why);
  }
  bool won = ::linkat(dir.get(), mine.c_str(), dir.get(), name_in_run(place, after).c_str(), 0) == 0;
  int const why = errno;
  if (!won) {  // the answer of a server may get lost: the second name says that it was ours all the same
    struct stat status {};
    won = ::fstat(file.get(), &status) == 0 && status.st_nlink == 2;
  }
  file.reset();
  ::unlinkat(dir.get(), mine.c_str(), 0);
  if (won) {
    return {after, value, {}};
  }
  return why == EEXIST ? read_winner(place, after, dir) : trouble(after, place, "cannot link " + path, why);
}

void remove_fences(FencePlace const& place) {
  os::UniqueFd const base = open_base(place);
  os::UniqueFd dir = open_run_dir(base, place);
  if (!dir || !is_private(dir)) {
    return;
  }
  std::unique_ptr<DIR, int (*)(DIR*)> const listing(::fdopendir(dir.get()), ::closedir);
  if (!listing) {
    return;
  }
  int const in = dir.release();  // the listing's from now on
  while (dirent const* const entry = ::readdir(listing.get())) {
    ::unlinkat(in, entry->d_name, 0);
  }
  ::unlinkat(base.get(), name_of(place).c_str(), AT_REMOVEDIR);
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
  os::beside<Fenced>(
      io_, "cxxrun-fence", kLongestClaim, [where = place(run_id, of), value] { return claim_fence(where, value); },
      {value.decree.after, std::nullopt, "--fence " + dir_ + ": the file system does not answer; give one that does"},
      [here = std::weak_ptr(here_), done = std::move(done)](Fenced fenced) {
        if (!here.expired()) {
          done(std::move(fenced));
        }
      });
}

void FenceClaims::remove(std::string const& run_id) {  // without a thread they stay: of no use, and in nobody's way
  if (!dir_.empty()) {
    removing_ = os::BoundedThread::start("cxxrun-fence", [where = place(run_id, 0)] { remove_fences(where); });
  }
}

}  // namespace cxxrun::rendezvous
