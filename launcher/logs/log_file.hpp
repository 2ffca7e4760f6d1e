// LogFile: one worker's stdout.log or stderr.log, appended to and never truncated; and small files, read whole. Shell.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cxxrun/error.hpp"
#include "src/base/os/folder.hpp"

namespace cxxrun::launcher {

/// Opens for appending, creating with mode 0644; CLOEXEC, blocking. The directory must exist. Neither it nor the file
/// is reached through a link or a directory of another user's below --log-dir, where others may be able to write.
[[nodiscard]] Result<os::UniqueFd> open_log_file(std::string const& path);
/// The same in the directory `folder`; `path` is for the error.
[[nodiscard]] Result<os::UniqueFd> open_log_file(os::Folder const& folder, std::string const& path);
/// What a worker of an earlier run has left there; as little a link to elsewhere as the others.
void remove_log_file(std::string const& path);
/// Both in one directory. The error names them.
[[nodiscard]] Result<void> rename_log_file(std::string const& from, std::string const& to);
/// Writes everything. Blocks as long as the file system does. The error names `path` and the remedy.
[[nodiscard]] Result<void> append_to_log(os::UniqueFd const& file, std::string const& path, std::string_view bytes);
/// At most `limit` bytes of a regular file that a worker has left in our directories, through no link there; "" when
/// it is not there.
[[nodiscard]] std::string read_worker_file(std::string const& path, std::size_t limit);

}  // namespace cxxrun::launcher
