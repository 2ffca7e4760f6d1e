// Caretaker: removes what this process has put into directories of others, also when it ends by a signal. Shell.
#pragma once

#include <string>
#include <sys/types.h>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// A child in a session of its own, which the terminal's signals do not reach. Only for a process that has no thread
/// but this one. Where no child can be started, nothing is removed.
class Caretaker {
 public:
  Caretaker();
  /// Waits for it for 2 s at most: a file system may hang.
  ~Caretaker();
  Caretaker(Caretaker const&) = delete;
  Caretaker& operator=(Caretaker const&) = delete;

  /// A file, or a directory with all that is in it, once this process and the children that it has forked meanwhile
  /// have ended. Children may say so, too.
  void remove_at_end(std::string const& path) const;

 private:
  pid_t pid_ = 0;
  UniqueFd told_;
  UniqueFd ended_;  ///< closed by its end
};

}  // namespace cxxrun::os
