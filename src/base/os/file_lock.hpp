// FileLock: the exclusive flock of a file of ours in a directory where others may do much. Shell.
//
// Whoever may open a file may lock it: so it is open to this user alone. One that others could have opened, or that
// another user has made, is replaced by such a one.
#pragma once

#include <optional>
#include <string>

#include "src/base/os/fd.hpp"
#include "src/base/os/folder.hpp"

namespace cxxrun::os {

/// Held until it is destroyed, also where a child has the descriptor as well.
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

/// With a lock that others can have opened: `none` left, it is replaced although somebody holds it.
enum class Patience { some, none };

/// Tries once, and does not wait. Nothing and errno: EWOULDBLOCK, somebody has it; ELOOP or EPERM, something is in its
/// place that cannot be replaced; otherwise no lock can be had there.
[[nodiscard]] std::optional<FileLock> try_lock(Folder const& folder, std::string const& name,
                                               Patience patience = Patience::some);
/// Who has it now: "pid 7 (train, uid 1500)" when it is a process of this node, "pid 7 on node2" as that node's wrote;
/// "" when that cannot be known.
[[nodiscard]] std::string lock_holder(Folder const& folder, std::string const& name);

}  // namespace cxxrun::os
