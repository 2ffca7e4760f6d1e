#include "launcher/logs/log_file.hpp"

#include <cerrno>
#include <filesystem>
#include <vector>

#include "src/base/core/limits.hpp"
#include "src/base/os/fd_io.hpp"

namespace cxxrun::launcher {
namespace {

Error cannot_write(std::string const& path, int error) {
  auto const room = room_for(std::filesystem::path(path).parent_path(), error);
  std::string const remedy =
      (room.empty() ? "check the directory" : room) + (error == EFBIG ? "" : ", or choose another --log-dir");
  auto const code = error == EACCES || error == EPERM || error == EROFS ? Errc::permission : Errc::io;
  return fail(code, "cannot write the log " + path + " (" + remedy + "); the stream goes on without this file", error);
}

/// RUN/attempt_N or RUN/attempt_N/RANK, below a --log-dir that others may write to: all of them are ours, and no links.
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

Result<void> rename_log_file(std::string const& from, std::string const& to) {
  auto const directory = directory_of(from);
  if (directory && directory.rename(os::name_in(from), os::name_in(to))) {
    return {};
  }
  return fail(Errc::io, "cannot rename the log " + from + " to " + os::name_in(to) + "; it is not rotated any more",
              errno);
}

Result<void> append_to_log(os::UniqueFd const& file, std::string const& path, std::string_view bytes) {
  return os::write_all(file.get(), bytes) ? Result<void>() : cannot_write(path, errno);
}

std::string read_worker_file(std::string const& path, std::size_t limit) {
  auto const directory = directory_of(path);
  auto const file = directory ? directory.open_file(os::name_in(path)) : os::UniqueFd();
  return file ? os::read_all(file.get(), limit).value_or("") : "";
}

}  // namespace cxxrun::launcher
