#include "launcher/logs/log_dir.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "src/base/core/limits.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/path_owners.hpp"
#include "src/base/os/random.hpp"

namespace cxxrun::launcher {
namespace {

constexpr int kMostRuns = 1000;
constexpr std::size_t kLongestSocketBase = 60;  // leaves room for both names: a socket's path has at most 107 bytes
constexpr std::size_t kMostLooked = 10'000;     // entries examined: a full /tmp must not slow down the start
constexpr std::size_t kMostSwept = 64;          // directories removed by one start
constexpr std::size_t kMostBelow = 100'000;     // entries removed in one of them
constexpr std::size_t kLongestBoot = 64;

Error cannot_make(std::string const& path, int error) {
  auto code = Errc::io;
  std::string remedy = "choose another --log-dir";
  if (error == EPERM) {
    code = Errc::permission;
    remedy = "another user owns it or denies access; choose a --log-dir that others cannot write to";
  } else if (error == EACCES || error == EROFS) {
    code = Errc::permission;
    remedy = "choose a --log-dir that you may write to";
  } else if (error == ENOTDIR || error == ENOENT) {
    code = Errc::not_found;
    remedy = "a part of this path is not a directory; choose another --log-dir";
  } else if (error == ENOSPC || error == EDQUOT) {
    remedy = room_for(std::filesystem::path(path).parent_path(), error) + ", or choose another --log-dir";
  }
  return fail(code, "cannot create the log directory " + path + " (" + remedy + ")", error);
}

std::string temporary_name(std::string const& base) {
  return base + "/" + temporary_prefix(getuid()) + "XXXXXX";
}

/// Where to make temporary directories: `wanted`, or /tmp if other users can rename what is made there. We would remove
/// what they put in its place.
std::string safe_base(std::string const& wanted) {
  struct stat facts {};
  auto const walked = wanted.empty() ? os::PathWalk() : os::walk(wanted, false);
  bool const strict = walked.folder && fstat(walked.folder.get(), &facts) == 0 &&
                      ((facts.st_mode & S_ISVTX) != 0 || !os::others_may_write(walked.folder.get(), facts)) &&
                      (facts.st_uid == geteuid() || os::is_root(facts.st_uid)) &&
                      os::first_loose(walked.steps, geteuid()) == nullptr;
  return strict ? wanted : "/tmp";
}

Result<std::string> make_temporary(std::string const& base) {
  auto path = temporary_name(base);
  if (mkdtemp(path.data()) == nullptr) {
    return cannot_make(path, errno);
  }
  return path;
}

void remove_all(std::string const& path) noexcept {
  if (!path.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
}

std::string boot_id() {
  return std::string(trim(os::read_system_file("/proc/sys/kernel/random/boot_id", kLongestBoot)));
}

std::vector<std::string> names_in(os::Folder const& dir, std::size_t most) {
  return dir ? dir.names(most).value_or(std::vector<std::string>{}) : std::vector<std::string>{};
}

/// Takes the lock if it is free.
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

/// Removes the owner file last: if this sweep is killed, the next one continues it.
bool sweep_one(std::string const& base, os::Folder const& there, std::string const& name, std::string const& boot) {
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
  owner.reset();  // NFS keeps an open file, and thereby the directory
  dir.remove(kOwnerFile);
  return there.remove_directory(name);
}

}  // namespace

Result<void> make_log_dir(std::string const& log_dir) {
  std::error_code error;
  if (!log_dir.empty() && log_dir != "/dev/null") {
    std::filesystem::create_directories(log_dir, error);  // agents may race for it on a shared file system
  }
  return error ? Result<void>(cannot_make(log_dir, error.value())) : Result<void>();
}

Result<void> check_temporary(std::string const& base) {
  auto const name = temporary_name(base);
  return access((base + "/.").c_str(), W_OK | X_OK) == 0 ? Result<void>() : cannot_make(name, errno);
}

Result<void> check_log_dir(std::string const& log_dir, std::string const& temporary_base) {
  if (log_dir.empty()) {
    return !temporary_base.empty() && check_temporary(temporary_base) ? Result<void>() : check_temporary("/tmp");
  }
  if (log_dir == "/dev/null") {
    return {};
  }
  std::error_code failed;
  auto there = std::filesystem::absolute(log_dir, failed);
  struct stat info {};
  while (stat(there.c_str(), &info) != 0 && errno == ENOENT && there.has_relative_path()) {
    there = there.parent_path();
  }
  if (stat(there.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
    return cannot_make(log_dir, ENOTDIR);
  }
  return access(there.c_str(), W_OK | X_OK) == 0 ? Result<void>() : cannot_make(log_dir, errno);
}

Result<LogRoot> make_log_root(std::string const& log_dir, std::string const& run_id, std::string const& host,
                              std::string const& temporary_base) {
  if (log_dir == "/dev/null") {
    return LogRoot{};
  }
  if (log_dir.empty()) {
    auto made = make_temporary(safe_base(temporary_base));
    if (!made) {
      made = make_temporary("/tmp");
    }
    return made ? Result<LogRoot>({*made, true}) : made.error();
  }
  if (auto const made = make_log_dir(log_dir); !made) {
    return made.error();
  }
  auto const name = log_dir + "/" + path_component(run_id) + "_" + path_component(host).substr(0, 40);
  for (int run = 1; run <= kMostRuns; ++run) {
    auto const number = run < kMostRuns ? std::to_string(run) : random_hex(8);  // all numbers may be taken
    auto path = name;
    if (run > 1) {
      path.append("-").append(number);
    }
    if (mkdir(path.c_str(), 0777) == 0) {
      return LogRoot{path, false};
    }
    if (errno != EEXIST) {
      return cannot_make(path, errno);
    }
  }
  return cannot_make(name, EEXIST);
}

std::string make_socket_dir(std::string const& temporary_base) {
  for (auto const& base : {safe_base(temporary_base), std::string("/tmp")}) {
    if (base.starts_with('/') && base.size() <= kLongestSocketBase) {
      if (auto made = make_temporary(base)) {
        return *std::move(made);
      }
    }
  }
  return "";
}

void remove_socket_dir(std::string const& dir) noexcept {
  remove_all(dir);
}

void remove_log_root(LogRoot const& root) noexcept {
  if (root.temporary) {
    remove_all(root.path);
  }
}

Result<void> make_worker_dirs(std::string const& root, std::uint64_t generation, std::uint32_t count) {
  if (root.empty()) {
    return {};
  }
  auto const attempt = attempt_dir(root, generation);
  os::Folder const folder = os::Folder::of_ours(root);
  os::Folder const dir = folder ? folder.make_below(attempt.substr(root.size() + 1)) : os::Folder();
  if (!dir) {
    return cannot_make(attempt, errno);
  }
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    if (!dir.make_below(std::to_string(rank))) {
      return cannot_make(worker_log_dir(root, generation, rank), errno);
    }
  }
  return {};
}

os::UniqueFd claim_temporary(std::string const& dir) {
  auto const boot = boot_id();
  std::string const made = std::string(kOwnerFile) + ".new";  // locked before the rename: no sweep sees it unlocked
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
  for (auto const& base : std::set<std::string>{safe_base(temporary_base), "/tmp"}) {
    auto const there = os::Folder::open(base);
    for (auto const& name : names_in(there, kMostLooked)) {
      if (swept < kMostSwept && is_temporary_name(name, getuid()) && sweep_one(base, there, name, boot)) {
        ++swept;
      }
    }
  }
  return swept;
}

}  // namespace cxxrun::launcher
