#include "launcher/logs/sweep.hpp"

#include <filesystem>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "launcher/logs/left_over.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd_io.hpp"
#include "src/base/os/folder.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kMostLooked = 10'000;  // a start takes no longer where /tmp is full
constexpr std::size_t kMostSwept = 64;
constexpr std::size_t kMostBelow = 100'000;
constexpr std::size_t kLongestBoot = 64;

std::string boot_id() {
  return std::string(trim(os::read_system_file("/proc/sys/kernel/random/boot_id", kLongestBoot)));
}

std::vector<std::string> names_in(os::Folder const& dir, std::size_t most) {
  return dir ? dir.names(most).value_or(std::vector<std::string>{}) : std::vector<std::string>{};
}

/// Takes the lock, where it can be had.
FoundDir look_at(int dir, int owner) {
  FoundDir found;
  struct stat info {};
  struct stat mark {};
  if (fstat(dir, &info) != 0 || fstat(owner, &mark) != 0) {
    return found;
  }
  found.uid = info.st_uid;
  found.others_write = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  found.marked = S_ISREG(mark.st_mode) && mark.st_uid == info.st_uid;
  found.held = !found.marked || flock(owner, LOCK_EX | LOCK_NB) != 0;
  if (!found.held) {
    found.boot = os::read_all(owner, kLongestBoot).value_or("");
  }
  return found;
}

/// The owner file goes last: a sweep that is killed itself is taken up by the next one.
bool sweep(std::string const& base, os::Folder const& there, std::string const& name, std::string const& boot) {
  std::string const path = base + "/" + name;
  auto const dir = there.below(name);
  auto owner = dir ? dir.open_own(kOwnerFile) : os::UniqueFd();
  if (!owner || !is_left_over(look_at(dir.get(), owner.get()), getuid(), boot)) {
    return false;
  }
  for (auto const& each : names_in(dir, kMostBelow)) {
    if (each != kOwnerFile) {
      std::error_code left;
      std::filesystem::remove_all(std::filesystem::path(path) / each, left);  // follows no link
    }
  }
  owner.reset();  // NFS keeps a file that is open, and with it the directory
  dir.remove(kOwnerFile);
  return there.remove_directory(name);
}

}  // namespace

os::UniqueFd claim_temporary(std::string const& dir) {
  auto const boot = boot_id();
  std::string const made = std::string(kOwnerFile) + ".new";  // it is locked before anybody can find it
  auto const there = os::Folder::of_ours(dir);
  if (boot.empty() || !there) {
    return {};
  }
  auto owner = there.create(made);
  if (owner && flock(owner.get(), LOCK_EX | LOCK_NB) == 0 && os::write_all(owner.get(), boot) &&
      there.rename(made, kOwnerFile)) {
    return owner;
  }
  there.remove(made);
  return {};
}

std::size_t sweep_temporary(std::string const& temporary_base) {
  auto const boot = boot_id();
  std::size_t swept = 0;
  for (auto const& base : std::set<std::string>{temporary_base, "/tmp"}) {
    auto const there = base.empty() ? os::Folder() : os::Folder::open(base);
    for (auto const& name : names_in(there, kMostLooked)) {
      if (swept < kMostSwept && is_temporary_name(name, getuid()) && sweep(base, there, name, boot)) {
        ++swept;
      }
    }
  }
  return swept;
}

}  // namespace cxxrun::launcher
