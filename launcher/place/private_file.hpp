// PrivateFile: reads a file that nobody but this user can read. Blocks as the file system does.
#pragma once

#include <cstddef>
#include <string>

#include "cxxrun/error.hpp"

namespace cxxrun::launcher {

/// At most `most` bytes of it; no link is followed. Errors name the path: not_found; permission, when another user owns
/// it, others may read or write it, or this user may not; protocol, when it is no regular file or a link; io. `remedy`:
/// what to do when it is not private, or no file.
[[nodiscard]] Result<std::string> read_private_file(std::string const& path, std::size_t most,
                                                    std::string const& remedy);

}  // namespace cxxrun::launcher
