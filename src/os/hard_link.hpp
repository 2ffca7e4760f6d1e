// Hard links in a directory: what a claim by link(2) needs.
#pragma once

#include <string>

#include "cxxrun/error.hpp"

namespace cxxrun::os {

/// Makes a file in `directory`, links it a second time and removes both: whether a claim can be made there. `unique`
/// is part of the names, for others may try at the same time. The error says what is wrong and what to do.
[[nodiscard]] Result<void> probe_hard_links(std::string const& directory, std::string const& unique);

}  // namespace cxxrun::os
