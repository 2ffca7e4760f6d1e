#include "launcher/logs/log_file.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "src/os/fd_io.hpp"

namespace cxxrun::launcher {
namespace {

constexpr int kOurDirectories = 2;  // the worker's and the attempt's

Error cannot_write(std::string const& path, int error) {
  bool const full = error == ENOSPC || error == EDQUOT;
  std::string const remedy =
      full ? "free space there or choose another --log-dir" : "check the directory or choose another --log-dir";
  auto const code = error == EACCES || error == EPERM || error == EROFS ? Errc::permission : Errc::io;
  return fail(code, "cannot write the log " + path + " (" + remedy + "); the stream goes on without this file", error);
}

/// The directory of a file of ours below a --log-dir that others may write to: no name on the way is a link. Nothing
/// and errno otherwise.
os::UniqueFd directory_of(std::string const& path) {
  std::filesystem::path above = std::filesystem::path(path).parent_path();
  std::vector<std::string> names;
  for (int level = 0; level < kOurDirectories && above.has_filename(); ++level) {
    names.push_back(above.filename());
    above = above.parent_path();
  }
  os::UniqueFd at(open(above.empty() ? "." : above.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (auto name = names.rbegin(); at && name != names.rend(); ++name) {
    at.reset(openat(at.get(), name->c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }
  return at;
}

std::string name_of(std::string const& path) {
  return std::filesystem::path(path).filename();
}

// O_NONBLOCK: a worker may choose what lies there, and a FIFO must not hold us up
constexpr int kReadFlags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;

std::string read_regular(os::UniqueFd const& file, std::size_t limit) {
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return {};
  }
  return os::read_all(file.get(), limit).value_or("");
}

}  // namespace

/// The file itself is no link either, and has no other name.
Result<os::UniqueFd> open_log_file(std::string const& path) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC;
  os::UniqueFd file = directory_of(path);
  if (file) {  // O_NONBLOCK: it may be a pipe that nobody reads
    file.reset(openat(file.get(), name_of(path).c_str(), kFlags | O_NONBLOCK, 0644));
  }
  struct stat facts {};
  if (file && (fstat(file.get(), &facts) != 0 ||
               !(S_ISCHR(facts.st_mode) || (S_ISREG(facts.st_mode) && facts.st_nlink == 1)))) {
    file.reset();
    errno = EPERM;
  }
  if (!file) {
    return cannot_write(path, errno);
  }
  fcntl(file.get(), F_SETFL, O_APPEND);  // written as a blocking one
  return file;
}

void remove_log_file(std::string const& path) {
  if (os::UniqueFd const directory = directory_of(path)) {
    unlinkat(directory.get(), name_of(path).c_str(), 0);
  }
}

Result<void> rename_log_file(std::string const& from, std::string const& to) {
  os::UniqueFd const directory = directory_of(from);
  if (directory && renameat(directory.get(), name_of(from).c_str(), directory.get(), name_of(to).c_str()) == 0) {
    return {};
  }
  return fail(Errc::io, "cannot rename the log " + from + " to " + name_of(to) + "; it is not rotated any more", errno);
}

Result<void> append_to_log(os::UniqueFd const& file, std::string const& path, std::string_view bytes) {
  return os::write_all(file.get(), bytes) ? Result<void>() : cannot_write(path, errno);
}

std::string read_small_file(std::string const& path, std::size_t limit) {
  return read_regular(os::UniqueFd(open(path.c_str(), kReadFlags)), limit);
}

std::string read_worker_file(std::string const& path, std::size_t limit) {
  os::UniqueFd const directory = directory_of(path);
  return directory ? read_regular(os::UniqueFd(openat(directory.get(), name_of(path).c_str(), kReadFlags | O_NOFOLLOW)),
                                  limit)
                   : "";
}

}  // namespace cxxrun::launcher
