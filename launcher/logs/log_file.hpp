// The files below a log directory: LogFile for the output of one stream, and functions for single files. Shell.
//
// Others may be able to write to --log-dir. No file is reached through a link below it or through a directory of
// another user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cxxrun/error.hpp"
#include "launcher/logs/rotation.hpp"
#include "src/base/os/folder.hpp"

namespace cxxrun::launcher {

/// Opens for appending, creating with mode 0644; CLOEXEC, blocking. The directory must exist.
[[nodiscard]] Result<os::UniqueFd> open_log_file(std::string const& path);
/// The same in the directory `folder`; `path` names the file in errors.
[[nodiscard]] Result<os::UniqueFd> open_log_file(os::Folder const& folder, std::string const& path);
/// Removes a file that a worker of an earlier run has left.
void remove_log_file(std::string const& path);
/// Writes everything. Blocks as long as the file system does. The error names `path` and the remedy.
[[nodiscard]] Result<void> append_to_log(os::UniqueFd const& file, std::string const& path, std::string_view bytes);
/// Reads at most `limit` bytes of a regular file that a worker has written; "" if there is none.
[[nodiscard]] std::string read_worker_file(std::string const& path, std::size_t limit);
/// A worker's error file, which may hold the stack of each thread. "" if there is none, or if it has more than 1 MiB: a
/// part of it would be no JSON.
[[nodiscard]] std::string read_error_file(std::string const& path);

/// A stream's stdout.log or stderr.log: appended to, never truncated, and rotated.
class LogFile {
 public:
  /// Opens `path`; "" opens nothing. A full file becomes `path`.1, the next one `path`.2, and so on.
  [[nodiscard]] Result<void> open(std::string path, Rotation rotation);
  [[nodiscard]] bool is_open() const { return static_cast<bool>(file_); }
  /// Writes everything; blocks as long as the file system does. An error names the file and the remedy. The file is
  /// closed after it, unless only the rotation failed: then the file grows on.
  [[nodiscard]] Result<void> append(std::string_view bytes);

 private:
  [[nodiscard]] Result<void> begin_next();

  os::UniqueFd file_;
  std::string path_;
  Rotation rotation_;
  FileFill fill_;
  std::uint64_t full_ = 0;  ///< full files so far
};

}  // namespace cxxrun::launcher
