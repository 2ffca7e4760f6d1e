// LogOutput: the files that one stream goes to, one after the other. Shell.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cxxrun/error.hpp"
#include "launcher/logs/rotation.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::launcher {

class LogOutput {
 public:
  /// Opens `path`, unless that is "". A full file becomes `path`.1, the next one `path`.2, and so on.
  [[nodiscard]] Result<void> open(std::string path, Rotation rotation);
  [[nodiscard]] bool is_open() const { return static_cast<bool>(file_); }
  /// Writes everything; blocks as long as the file system does. After an error, which names the file and the remedy, it
  /// is closed; or goes on with the file that it has, when that could only not be replaced.
  [[nodiscard]] Result<void> append(std::string_view bytes);

 private:
  [[nodiscard]] Result<void> begin_next();

  os::UniqueFd file_;
  std::string path_;
  Rotation rotation_;
  FileFill fill_;
  std::uint64_t full_ = 0;  ///< files so far
};

}  // namespace cxxrun::launcher
