// Sweep: temporary directories that killed agents have left behind. Shell. Which: left_over.hpp.
#pragma once

#include <cstddef>
#include <string>

#include "src/base/os/fd.hpp"

namespace cxxrun::launcher {

/// Marks a directory of this process as one to be removed, for as long as the descriptor is open here or in a process
/// forked from here; an exec closes it. None where the file system has no locks: then nobody else removes it.
[[nodiscard]] os::UniqueFd claim_temporary(std::string const& dir);

/// Removes what is left over of this user in `temporary_base` ($TMPDIR; "": none) and in /tmp; how many directories.
/// Follows no link, waits for no lock, leaves alone what cannot be removed, and looks at a bounded number of entries.
[[nodiscard]] std::size_t sweep_temporary(std::string const& temporary_base);

}  // namespace cxxrun::launcher
