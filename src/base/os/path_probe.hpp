// PathProbe: looks at paths in a child, because a file system whose server is gone blocks whoever looks. Shell.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// What the child found of one path.
struct SeenPath {
  int error = 0;  ///< errno of asking for its space, opening it, or reading a byte of it
  bool full = false;
};

/// A child that looks at each path in turn and then ends. It holds no descriptor of ours but the pipe, and dies with
/// us; one that hangs survives SIGKILL and is to be forgotten, not waited for.
struct PathProbe {
  pid_t pid = 0;
  UniqueFd output;
};
/// Nothing when no child can be made. Call it on the thread that may fork.
[[nodiscard]] std::optional<PathProbe> start_probe(std::vector<std::string> const& paths);
/// What it has found so far, in the order of the paths; never blocks.
[[nodiscard]] std::vector<SeenPath> read_probe(PathProbe const& probe);

}  // namespace cxxrun::os
