// PathOwners: the owners of all names on the way to a directory: which users could have made it, and which can replace
// it. The walk is a shell, the answers are pure.
#pragma once

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "src/base/os/folder.hpp"

namespace cxxrun::os {

/// A name on the way, and the directory that contains it.
struct PathStep {
  std::string path;
  uid_t owner = 0;
  bool is_link = false;
  uid_t holder = 0;     ///< owner of the containing directory
  bool open = false;    ///< users other than `holder` may make names there
  bool sticky = false;  ///< and rename and remove only their own
  bool operator==(PathStep const&) const = default;
};

struct PathWalk {
  Folder folder;  ///< none with errno: then `steps` ends where the walk failed
  std::vector<PathStep> steps;
  bool made = false;
};

/// Walks from the root to the directory `path`, through all links, and opens each name in the directory before it.
/// `make`: makes the last name if it is missing, with 0777 less the umask. Blocks as the file system does.
[[nodiscard]] PathWalk walk(std::string const& path, bool make);

/// The first name on the way that a stranger can have put there; null: there is none. Trusted are `user`, root, and
/// each user to whom these have given a directory on the way. If the walk ends at a directory of `user` or root, which
/// no stranger can make, only links matter.
[[nodiscard]] PathStep const* first_strange(std::vector<PathStep> const& steps, uid_t user);
/// The first name on the way that a user other than `user` and root can replace; null: there is none.
[[nodiscard]] PathStep const* first_loose(std::vector<PathStep> const& steps, uid_t user);

}  // namespace cxxrun::os
