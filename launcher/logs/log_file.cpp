#include "launcher/logs/log_file.hpp"

#include <cassert>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "src/base/core/limits.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::launcher {
namespace {

Error cannot_write(std::string const& path, int error) {
  auto const room = room_for(std::filesystem::path(path).parent_path(), error);
  std::string const remedy =
      (room.empty() ? "check the directory" : room) + (error == EFBIG ? "" : ", or choose another --log-dir");
  auto const code = error == EACCES || error == EPERM || error == EROFS ? Errc::permission : Errc::io;
  return fail(code, "cannot write the log " + path + " (" + remedy + "); the stream goes on without this file", error);
}

/// The directory of `path`. Of RUN/attempt_N and RUN/attempt_N/RANK, each part must be a directory of this user and no
/// link: others may be able to write to --log-dir.
os::Folder directory_of(std::string const& path) {
  std::filesystem::path const parent = std::filesystem::path(path).parent_path();
  auto const is_attempt = [](std::filesystem::path const& dir) { return os::name_in(dir).starts_with("attempt_"); };
  auto const attempt = is_attempt(parent) ? parent : parent.parent_path();
  if (!is_attempt(attempt)) {
    return os::Folder::open(parent.empty() ? "." : parent.string());
  }
  os::Folder const root = os::Folder::of_ours(attempt.parent_path());
  os::Folder there = root ? root.below(os::name_in(attempt)) : os::Folder();
  return there && parent != attempt ? there.below(os::name_in(parent)) : std::move(there);
}

Result<void> rename_log_file(std::string const& from, std::string const& to) {
  auto const directory = directory_of(from);
  if (directory && directory.rename(os::name_in(from), os::name_in(to))) {
    return {};
  }
  return fail(Errc::io, "cannot rename the log " + from + " to " + os::name_in(to) + "; it is no longer rotated",
              errno);
}

}  // namespace

Result<os::UniqueFd> open_log_file(os::Folder const& folder, std::string const& path) {
  auto file = folder ? folder.append_to(os::name_in(path)) : os::UniqueFd();
  return file ? Result<os::UniqueFd>(std::move(file)) : cannot_write(path, errno);
}

Result<os::UniqueFd> open_log_file(std::string const& path) {
  return open_log_file(directory_of(path), path);
}

void remove_log_file(std::string const& path) {
  if (auto const directory = directory_of(path)) {
    directory.remove(os::name_in(path));
  }
}

Result<void> append_to_log(os::UniqueFd const& file, std::string const& path, std::string_view bytes) {
  return os::write_all(file.get(), bytes) ? Result<void>() : cannot_write(path, errno);
}

std::string read_worker_file(std::string const& path, std::size_t limit) {
  auto const directory = directory_of(path);
  return directory ? directory.read(os::name_in(path), limit).value_or("") : "";
}

std::string read_error_file(std::string const& path) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  auto text = read_worker_file(path, kMost + 1);
  return text.size() > kMost ? std::string() : text;
}

Result<void> LogFile::open(std::string path, Rotation rotation) {
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

Result<void> LogFile::append(std::string_view bytes) {
  assert(is_open());
  Result<void> result;
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
        result = begun;  // the old file could not be renamed: go on with it
        rotation_ = {};
      }
    }
  }
  return result;
}

Result<void> LogFile::begin_next() {
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
