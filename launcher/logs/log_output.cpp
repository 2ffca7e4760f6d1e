#include "launcher/logs/log_output.hpp"

#include <utility>

#include "launcher/logs/log_file.hpp"

namespace cxxrun::launcher {

Result<void> LogOutput::open(std::string path, Rotation rotation) {
  path_ = std::move(path);
  rotation_ = rotation;
  fill_ = {};
  if (path_.empty()) {
    return {};
  }
  auto file = open_log_file(path_);
  if (!file) {
    return file.error();
  }
  file_ = *std::move(file);
  return {};
}

Result<void> LogOutput::append(std::string_view bytes) {
  Result<void> told;
  while (!bytes.empty()) {
    auto const size = rotation_.bytes == 0 ? bytes.size() : fitting(fill_, bytes, rotation_.bytes);
    auto const part = bytes.substr(0, size);
    if (auto written = append_to_log(file_, path_, part); !written) {
      file_.reset();
      return written;
    }
    bytes.remove_prefix(size);
    fill_.bytes += size;
    fill_.in_line = size == 0 ? fill_.in_line : part.back() != '\n';
    if (!bytes.empty()) {
      if (auto begun = begin_next(); !begun) {
        if (!file_) {
          return begun;
        }
        told = begun;
        rotation_ = {};
      }
    }
  }
  return told;
}

Result<void> LogOutput::begin_next() {
  auto const name = path_ + "." + std::to_string(++full_);
  if (auto renamed = rename_log_file(path_, name); !renamed) {
    return renamed;
  }
  file_.reset();
  if (rotation_.keep > 0 && full_ > rotation_.keep) {
    remove_log_file(path_ + "." + std::to_string(full_ - rotation_.keep));
  }
  return open(path_, rotation_);
}

}  // namespace cxxrun::launcher
