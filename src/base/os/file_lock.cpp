#include "src/base/os/file_lock.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <climits>

#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::os {
namespace {

constexpr std::size_t kMostLocks = std::size_t{4} << 20U;
constexpr int kLockFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

UniqueFd open_lock(Folder const& folder, std::string const& name, int more = 0) {
  return UniqueFd(::openat(folder.get(), name.c_str(), kLockFlags | more, kForUs));
}

bool take(int file) {
  return retried([&] { return ::flock(file, LOCK_EX | LOCK_NB); }) == 0;
}

/// Whether no other user can open it or can have opened it.
bool is_safe(Folder const& folder, struct stat const& facts) {
  return S_ISREG(facts.st_mode) && facts.st_nlink <= 1 && (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0 &&
         folder.is_own(facts);
}

/// Writes "pid 7 on node1" into the file, for processes that wait. Fails silently on a full disk.
void sign(int file) {
  std::string const text = "pid " + std::to_string(::getpid()) + " on " + host_name();
  (void)!::pwrite(file, text.data(), text.size(), 0);
}

std::optional<FileLock> held(UniqueFd file) {
  (void)!::ftruncate(file.get(), 0);
  sign(file.get());
  return std::optional<FileLock>(std::in_place, std::move(file));
}

/// Replaces a lock file that others may have opened. The lock on the temporary file lets only one of several processes
/// do so at a time. A process of ours that holds the old file's lock keeps it until it is done.
std::optional<FileLock> replace_lock(Folder const& folder, std::string const& name, UniqueFd const& old) {
  std::string const temporary = name + ".tmp";
  UniqueFd fresh = open_lock(folder, temporary, O_CREAT);
  struct stat facts {};
  if (!fresh || ::fstat(fresh.get(), &facts) != 0) {
    return std::nullopt;
  }
  if (!is_safe(folder, facts)) {  // or another process has just made it the lock, which somebody has opened to others
    errno = folder.leads_to(temporary, fresh.get()) ? EPERM : EWOULDBLOCK;
    return std::nullopt;
  }
  if (!take(fresh.get())) {
    return std::nullopt;
  }
  if (!folder.leads_to(temporary, fresh.get()) || !folder.leads_to(name, old.get())) {
    if (folder.leads_to(temporary, fresh.get())) {
      folder.remove(temporary);
    }
    errno = EWOULDBLOCK;  // another process has just replaced it
    return std::nullopt;
  }
  if (!folder.rename(temporary, name)) {
    int const why = errno;
    folder.remove(temporary);
    errno = why;
    return std::nullopt;
  }
  return held(std::move(fresh));
}

/// The process of this node that has a flock on the file, by the kernel's list; 0: none is known.
pid_t local_holder(struct stat const& facts) {
  std::istringstream lines(read_system_file("/proc/locks", kMostLocks));
  char wanted[64];
  (void)std::snprintf(wanted, sizeof wanted, "%02x:%02x:%llu", major(facts.st_dev), minor(facts.st_dev),
                      static_cast<unsigned long long>(facts.st_ino));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, kind, how, what, where;
    pid_t pid = 0;
    if (words >> number >> kind >> how >> what >> pid >> where && kind == "FLOCK" && where == wanted && pid > 0) {
      return pid;
    }
  }
  return 0;
}

std::string described(pid_t pid) {
  std::string const place = "/proc/" + std::to_string(pid);
  struct stat facts {};
  std::string text = "pid " + std::to_string(pid);
  if (::stat(place.c_str(), &facts) == 0) {
    text += " (" + printable(std::string(trim(read_system_file(place + "/comm")))) + ", uid " +
            std::to_string(facts.st_uid) + ")";
  }
  return text;
}

}  // namespace

FileLock::~FileLock() {
  if (file_) {
    (void)!::ftruncate(file_.get(), 0);  // the next holder may not write its name
    ::flock(file_.get(), LOCK_UN);       // closing is not enough when a forked child has the descriptor
  }
}

std::optional<FileLock> try_lock(Folder const& folder, std::string const& name, Patience patience) {
  UniqueFd file = open_lock(folder, name, O_CREAT);
  if (!file && errno == EACCES) {  // a lock file of another user, or a directory that is closed to us
    file.reset(::openat(folder.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!file) {
      errno = EACCES;
    }
  }
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0) {
    return std::nullopt;
  }
  if (!S_ISREG(facts.st_mode) || facts.st_nlink > 1) {
    errno = ELOOP;
    return std::nullopt;
  }
  if (!is_safe(folder, facts)) {
    if (folder.is_own(facts) && !take(file.get()) && (errno != EWOULDBLOCK || patience == Patience::some)) {
      return std::nullopt;  // a process of ours may hold it for a moment
    }
    return replace_lock(folder, name, file);
  }
  if (!take(file.get())) {
    return std::nullopt;
  }
  if (!folder.leads_to(name, file.get())) {
    errno = EWOULDBLOCK;  // it was replaced before we locked it: the next try opens the new one
    return std::nullopt;
  }
  return held(std::move(file));
}

std::string lock_holder(Folder const& folder, std::string const& name) {
  UniqueFd const file = open_lock(folder, name);
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0) {
    return "";
  }
  if (pid_t const pid = local_holder(facts); pid != 0) {
    return described(pid);
  }
  char text[HOST_NAME_MAX + 32];
  ssize_t const size = is_safe(folder, facts) ? ::pread(file.get(), text, sizeof text, 0) : 0;
  std::string const signature = size > 0 ? printable({text, static_cast<std::size_t>(size)}) : "";
  return signature.ends_with(" on " + host_name()) ? "" : signature;  // the kernel of this node would know it
}

}  // namespace cxxrun::os
