#include "launcher/logs/sweep.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "launcher/logs/left_over.hpp"
#include "src/core/text.hpp"
#include "src/os/fd_io.hpp"
#include "src/os/folder.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kMostLooked = 10'000;  // a start takes no longer where /tmp is full
constexpr std::size_t kMostSwept = 64;
constexpr std::size_t kMostBelow = 100'000;
constexpr std::size_t kLongestBoot = 64;

std::string boot_id() {
  return std::string(trim(os::read_system_file("/proc/sys/kernel/random/boot_id", kLongestBoot)));
}

os::UniqueFd open_dir(int in, std::string const& name, int flags = O_NOFOLLOW) {
  return os::UniqueFd(openat(in, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
}

std::vector<std::string> names_in(int dir, std::size_t most) {
  std::vector<std::string> names;
  os::UniqueFd again = open_dir(dir, ".");
  std::unique_ptr<DIR, int (*)(DIR*)> const list(again ? fdopendir(again.get()) : nullptr, &closedir);
  if (list == nullptr) {
    return names;
  }
  static_cast<void>(again.release());
  while (auto const* const entry = names.size() < most ? readdir(list.get()) : nullptr) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") {
      names.push_back(std::move(name));
    }
  }
  return names;
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
bool sweep(std::string const& base, std::string const& name, std::string const& boot) {
  std::string const path = base + "/" + name;
  auto const dir = open_dir(AT_FDCWD, path);
  if (!dir) {
    return false;
  }
  os::UniqueFd owner(openat(dir.get(), kOwnerFile, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!owner || !is_left_over(look_at(dir.get(), owner.get()), getuid(), boot)) {
    return false;
  }
  for (auto const& each : names_in(dir.get(), kMostBelow)) {
    if (each != kOwnerFile) {
      std::error_code left;
      std::filesystem::remove_all(std::filesystem::path(path) / each, left);  // follows no link
    }
  }
  owner.reset();  // NFS keeps a file that is open, and with it the directory
  unlinkat(dir.get(), kOwnerFile, 0);
  return rmdir(path.c_str()) == 0;
}

}  // namespace

os::UniqueFd claim_temporary(std::string const& dir) {
  auto const boot = boot_id();
  std::string const made = std::string(kOwnerFile) + ".new";  // it is locked before anybody can find it
  auto const there = open_dir(AT_FDCWD, dir);
  if (boot.empty() || !there) {
    return {};
  }
  os::UniqueFd owner(openat(there.get(), made.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (owner && flock(owner.get(), LOCK_EX | LOCK_NB) == 0 && os::write_all(owner.get(), boot) &&
      renameat(there.get(), made.c_str(), there.get(), kOwnerFile) == 0) {
    return owner;
  }
  unlinkat(there.get(), made.c_str(), 0);
  return {};
}

std::size_t sweep_temporary(std::string const& temporary_base) {
  auto const boot = boot_id();
  std::size_t swept = 0;
  for (auto const& base : std::set<std::string>{temporary_base, "/tmp"}) {
    auto const there = base.empty() ? os::UniqueFd() : open_dir(AT_FDCWD, base, 0);
    for (auto const& name : there ? names_in(there.get(), kMostLooked) : std::vector<std::string>{}) {
      if (swept < kMostSwept && is_temporary_name(name, getuid()) && sweep(base, name, boot)) {
        ++swept;
      }
    }
  }
  return swept;
}

}  // namespace cxxrun::launcher
