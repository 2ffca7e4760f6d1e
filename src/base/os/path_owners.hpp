// PathOwners: whose the names on the way to a directory are: who could have made it, and who can put another one in its
// place. The walk is a shell, the answers are pure.
#pragma once

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "src/base/os/folder.hpp"

namespace cxxrun::os {

/// A name on the way, and the directory in which it is.
struct PathStep {
  std::string path;
  uid_t owner = 0;
  bool is_link = false;
  uid_t holder = 0;     ///< owner of the directory in which it is
  bool open = false;    ///< others than that owner may make names there
  bool sticky = false;  ///< and rename and remove only their own
  bool operator==(PathStep const&) const = default;
};

struct Walked {
  Folder folder;  ///< none: errno, and the steps as far as they went
  std::vector<PathStep> steps;
  bool made = false;
};

/// From the root to the directory `path`, through all links, each name opened in the directory before it.
/// `make`: the last one is made where it is missing, 0777 less the umask. Blocks as the file system does.
[[nodiscard]] Walked walk(std::string const& path, bool make);

/// The first name on the way that a stranger can have put there; none: nobody but `user`, root, and whom these have let
/// have the directory before it. To be believed is what that user, root, or the owner of such a directory has left. On
/// the way to a directory of that user's or root's own, which no stranger can make, links alone matter.
[[nodiscard]] PathStep const* first_strange(std::vector<PathStep> const& steps, uid_t user);
/// The first name on the way that another user than `user` and root can put something else in the place of; none: it
/// stays what it is.
[[nodiscard]] PathStep const* first_loose(std::vector<PathStep> const& steps, uid_t user);

}  // namespace cxxrun::os
