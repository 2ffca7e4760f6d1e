// FileLock: an exclusive flock of a file in a directory to which other users may write. Shell.
//
// Every user who can open a file can lock it, so the lock file is open to this user only. A file that others could have
// opened, or that another user has made, is replaced by a safe one.
#pragma once

#include <optional>
#include <string>

#include "src/base/os/fd.hpp"
#include "src/base/os/folder.hpp"

namespace cxxrun::os {

/// The lock is held until this is destroyed, even if a child has inherited the descriptor.
class FileLock {
 public:
  explicit FileLock(UniqueFd file) : file_(std::move(file)) {}
  FileLock(FileLock const&) = delete;
  FileLock& operator=(FileLock const&) = delete;
  FileLock(FileLock&&) noexcept = default;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  UniqueFd file_;
};

/// For a lock file that others may have opened. none: it is replaced even while a process holds the lock.
enum class Patience { some, none };

/// Tries once, without waiting. Nothing with errno: EWOULDBLOCK, the lock is taken; ELOOP or EPERM, something is in its
/// place that cannot be replaced; any other, locks do not work there.
[[nodiscard]] std::optional<FileLock> try_lock(Folder const& folder, std::string const& name,
                                               Patience patience = Patience::some);
/// The process that has the lock: "pid 7 (train, uid 1500)" on this node, or "pid 7 on node2" as that process wrote
/// into the file. "" when it is not known.
[[nodiscard]] std::string lock_holder(Folder const& folder, std::string const& name);

}  // namespace cxxrun::os
