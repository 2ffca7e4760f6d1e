#include "src/base/os/folder.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <memory>
#include <pwd.h>
#include <sstream>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <climits>

#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/random.hpp"

namespace cxxrun::os {
namespace {

constexpr int kMostLinks = 16;

// Looks up more than /etc: a directory service may be slow. There is no known upper bound for the buffers.
bool is_own_group(gid_t group) {
  std::array<char, 16'384> users{};
  std::array<char, 16'384> groups{};
  passwd user{};
  passwd* is_user = nullptr;
  ::group own{};
  ::group* is_group = nullptr;
  if (::getpwuid_r(::geteuid(), &user, users.data(), users.size(), &is_user) != 0 || is_user == nullptr ||
      user.pw_gid != group || ::getgrgid_r(group, &own, groups.data(), groups.size(), &is_group) != 0 ||
      is_group == nullptr) {
    return false;
  }
  for (char** member = own.gr_mem; *member != nullptr; ++member) {
    if (std::string_view(*member) != user.pw_name) {
      return false;
    }
  }
  return std::string_view(own.gr_name) == user.pw_name;
}

/// Whether an ACL names further users or groups. The bits of the group then show the most that it grants.
bool has_acl(int directory) {
  return ::getxattr(("/proc/self/fd/" + std::to_string(directory)).c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

UniqueFd with_errno(int error) {
  errno = error;
  return {};
}

// `file` if it is a regular file with a single name, or a character device with `devices`. Else none with ELOOP.
UniqueFd if_plain(UniqueFd file, bool devices, struct stat* facts) {
  if (!file) {
    return file;
  }
  if (::fstat(file.get(), facts) != 0) {
    return with_errno(errno);
  }
  bool const plain = S_ISREG(facts->st_mode) && facts->st_nlink <= 1;
  return plain || (devices && S_ISCHR(facts->st_mode)) ? std::move(file) : with_errno(ELOOP);
}

bool overwrite(UniqueFd const& file, std::string_view text) {
  return file && (::ftruncate(file.get(), 0) == 0 || errno == EINVAL) && write_all(file.get(), text);
}

// Links in /proc may lead to what has no name: a pipe, a terminal.
bool is_in_proc(int file) {
  struct statfs system {};
  return ::fstatfs(file, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

bool write_through(std::string const& path, std::string_view text, int links) {
  Folder const folder = Folder::above(path);
  std::string const name = name_in(path);
  UniqueFd const there(folder ? ::openat(folder.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1);
  struct stat facts {};
  if (!folder || (!there && errno != ENOENT) || (there && ::fstat(there.get(), &facts) != 0)) {
    return false;
  }
  bool const link = there && S_ISLNK(facts.st_mode);
  if (link && is_in_proc(there.get())) {
    return overwrite(UniqueFd(::openat(folder.get(), name.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC)), text);
  }
  bool const ours = facts.st_uid == ::geteuid() || is_root(facts.st_uid);
  if (link && ours) {
    std::array<char, PATH_MAX> target{};
    auto const size = ::readlinkat(there.get(), "", target.data(), target.size());
    if (size <= 0 || links == kMostLinks) {
      errno = size <= 0 ? errno : ELOOP;
      return false;
    }
    std::string const next(target.data(), static_cast<std::size_t>(size));
    return write_through(next.front() == '/' ? next : parent_of(path) + "/" + next, text, links + 1);
  }
  if (there && !link && !S_ISREG(facts.st_mode) && ours) {  // another user's pipe could hold us up
    constexpr int kFlags = O_WRONLY | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;  // nobody may read a pipe
    return overwrite(UniqueFd(::openat(folder.get(), name.c_str(), kFlags)), text);
  }
  if (folder.replace(name, text, kForAll)) {
    return true;
  }
  if ((errno != EACCES && errno != EPERM && errno != EROFS) || !there || link || !folder.is_own(facts)) {
    return false;
  }
  return overwrite(
      if_plain(UniqueFd(::openat(folder.get(), name.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC)), false, &facts), text);
}

}  // namespace

std::string read_system_file(std::string const& path, std::size_t most) {
  UniqueFd const file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat facts {};
  bool const regular = file && ::fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode);
  return regular ? read_all(file.get(), most).value_or("") : "";
}

mode_t less_umask(mode_t most) {
  // umask(2) cannot read the mask without changing it for all threads.
  std::string const status = read_system_file("/proc/self/status");
  auto const at = status.find("\nUmask:\t");
  mode_t const mask = at == std::string::npos ? 077 : static_cast<mode_t>(std::strtoul(&status[at + 8], nullptr, 8));
  return most & ~mask;
}

bool is_root(uid_t owner) {
  if (owner == 0) {
    return true;
  }
  static auto const* const unmapped = [] {
    constexpr std::uint64_t kAll = 4'294'967'295;
    std::istringstream map(read_system_file("/proc/self/uid_map"));
    std::uint64_t inside = 0, outside = 0, count = kAll;
    map >> inside >> outside >> count;
    bool const whole = inside == 0 && outside == 0 && count == kAll;
    auto const nobody = number_in<uid_t>(trim(read_system_file("/proc/sys/kernel/overflowuid")));
    return new std::optional<uid_t>(whole ? std::nullopt : nobody);  // kept until the end of the process
  }();
  return *unmapped == owner;
}

std::string parent_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  auto const slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool others_may_write(int directory, struct stat const& facts) {
  bool const by_group = (facts.st_mode & S_IWGRP) != 0;
  return (facts.st_mode & S_IWOTH) != 0 || (by_group && (has_acl(directory) || !is_own_group(facts.st_gid)));
}

Folder Folder::open(std::string const& path) {
  return Folder(UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
}

Folder Folder::above(std::string const& path) {
  return Folder(UniqueFd(::open(parent_of(path).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
}

Folder Folder::of_ours(std::string const& path) {
  Folder const parent = above(path);
  return parent ? parent.below(name_in(path)) : Folder();  // errno stays why
}

Folder Folder::below(std::string const& name) const {
  Folder there(UniqueFd(::openat(get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)));
  struct stat facts {};
  if (there && ::fstat(there.get(), &facts) == 0 && !is_root(facts.st_uid) && !there.is_own(facts)) {
    there = Folder(with_errno(EPERM));
  }
  return there;
}

Folder Folder::make_below(std::string const& name, mode_t mode) const {
  if (::mkdirat(get(), name.c_str(), mode) != 0 && errno != EEXIST) {
    return {};
  }
  return below(name);
}

// What is not empty has been put there since.
Folder Folder::make_marked(std::string const& name) const {
  Folder there = make_below(name, 0700);
  auto const inside = there ? there.names(1) : std::nullopt;
  if (inside && !inside->empty()) {
    return Folder(with_errno(EEXIST));
  }
  return inside && there.create(name) ? std::move(there) : Folder(with_errno(errno));
}

UniqueFd Folder::create(std::string const& name) const {
  return UniqueFd(::openat(get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kForUs));
}

UniqueFd Folder::append_to(std::string const& name) const {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC;
  struct stat facts {};
  auto file = if_plain(UniqueFd(::openat(get(), name.c_str(), kFlags | O_NONBLOCK, 0644)), true, &facts);
  if (file && S_ISREG(facts.st_mode) && !is_own(facts)) {
    return with_errno(EPERM);
  }
  if (file) {
    // Clears O_NONBLOCK, which kept open() from blocking on a pipe without a reader.
    ::fcntl(file.get(), F_SETFL, O_APPEND);
  }
  return file;
}

UniqueFd Folder::open_file(std::string const& name) const {
  struct stat facts {};
  UniqueFd file(::openat(get(), name.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (file && ::fstat(file.get(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    return with_errno(ELOOP);
  }
  return file;
}

UniqueFd Folder::open_own(std::string const& name) const {
  struct stat facts {};
  auto file =
      if_plain(UniqueFd(::openat(get(), name.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC)), false, &facts);
  return file && !is_own(facts) ? with_errno(EPERM) : std::move(file);
}

UniqueFd Folder::open_trusted(std::string const& name) const {
  auto file = open_file(name);
  struct stat facts {};
  if (file && ::fstat(file.get(), &facts) == 0 && !is_root(facts.st_uid) && !is_own(facts)) {
    return with_errno(EPERM);
  }
  return file;
}

std::optional<std::string> Folder::read(std::string const& name, std::size_t most) const {
  auto const file = open_trusted(name);
  return file ? read_all(file.get(), most) : std::nullopt;
}

bool Folder::replace(std::string const& name, std::string_view text, mode_t mode) const {
  std::string const temporary = "." + name.substr(0, 200) + "." + random_hex(16);
  auto const file = create(temporary);
  if (!file) {
    return false;
  }
  if (write_all(file.get(), text) && publish(file.get(), temporary, name, mode)) {
    return true;
  }
  int const error = errno;
  remove(temporary);
  errno = error;
  return false;
}

bool Folder::publish(int file, std::string const& temporary, std::string const& name, mode_t mode) const {
  if (mode != kForUs) {
    (void)::fchmod(file, less_umask(mode));  // fails on a file system without modes
  }
  return rename(temporary, name);
}

bool Folder::rename(std::string const& from, std::string const& to) const {
  return ::renameat(get(), from.c_str(), get(), to.c_str()) == 0;
}

bool Folder::link(std::string const& name, std::string const& second) const {
  return ::linkat(get(), name.c_str(), get(), second.c_str(), 0) == 0;
}

bool Folder::remove(std::string const& name) const noexcept {
  return ::unlinkat(get(), name.c_str(), 0) == 0;
}

bool Folder::remove_directory(std::string const& name) const noexcept {
  return ::unlinkat(get(), name.c_str(), AT_REMOVEDIR) == 0;
}

bool Folder::remove_marked(std::string const& name) const {
  Folder const there = below(name);
  auto const all = there && there.open_own(name) ? there.names() : std::nullopt;
  for (auto const& each : all.value_or(std::vector<std::string>{})) {
    there.remove(each);
  }
  return all && remove_directory(name);
}

std::optional<std::vector<std::string>> Folder::names(std::size_t most) const {
  UniqueFd again(::openat(get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::unique_ptr<DIR, int (*)(DIR*)> const list(again ? ::fdopendir(again.get()) : nullptr, ::closedir);
  if (!list) {
    return std::nullopt;
  }
  (void)again.release();  // closedir() closes it
  std::vector<std::string> all;
  errno = 0;
  while (dirent const* const entry = all.size() < most ? ::readdir(list.get()) : nullptr) {  // NOLINT: our own stream
    std::string_view const name = entry->d_name;
    if (name != "." && name != "..") {
      all.emplace_back(name);
    }
  }
  return errno == 0 ? std::optional(std::move(all)) : std::nullopt;
}

bool Folder::is_own(struct stat const& facts) const {
  if (facts.st_uid == ::geteuid()) {
    return true;
  }
  std::string const probe = ".cxxrun-" + random_hex(16);
  auto const file = create(probe);
  struct stat own {};
  bool const same = file && ::fstat(file.get(), &own) == 0 && own.st_uid == facts.st_uid;
  if (file) {
    remove(probe);
  }
  return same;
}

bool Folder::leads_to(std::string const& name, int file) const {
  struct stat named {};
  struct stat facts {};
  return ::fstatat(get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(file, &facts) == 0 &&
         named.st_dev == facts.st_dev && named.st_ino == facts.st_ino;
}

bool write_path(std::string const& path, std::string_view text) {
  return write_through(path, text, 0);
}

}  // namespace cxxrun::os
