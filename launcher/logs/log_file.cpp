#include "launcher/logs/log_file.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/logs/tail_buffer.hpp"
#include "src/os/fd_io.hpp"

namespace cxxrun::launcher {
namespace {

Error cannot_write(std::string const& path, int error) {
  bool const full = error == ENOSPC || error == EDQUOT;
  std::string const remedy =
      full ? "free space there or choose another --log-dir" : "check the directory or choose another --log-dir";
  auto const code = error == EACCES || error == EPERM || error == EROFS ? Errc::permission : Errc::io;
  return fail(code, "cannot write the log " + path + " (" + remedy + "); the stream goes on without this file", error);
}

}  // namespace

Result<os::UniqueFd> open_log_file(std::string const& path) {
  os::UniqueFd file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_CLOEXEC, 0644));
  if (!file) {
    return cannot_write(path, errno);
  }
  return file;
}

Result<void> append_to_log(os::UniqueFd const& file, std::string const& path, std::string_view bytes) {
  return os::write_all(file.get(), bytes) ? Result<void>() : cannot_write(path, errno);
}

std::string tail_of_log_file(std::string const& path) {
  os::UniqueFd const file(open(path.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  auto const size = file ? lseek(file.get(), 0, SEEK_END) : -1;
  if (size <= 0) {
    return {};
  }
  // One byte more than is shown tells whether the rest begins a line.
  std::string bytes(kTailBytes + 1, '\0');
  auto const from = std::max<off_t>(0, size - static_cast<off_t>(bytes.size()));
  auto const n = pread(file.get(), bytes.data(), bytes.size(), from);
  bytes.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return std::string(last_lines(bytes, from == 0));
}

std::string read_small_file(std::string const& path, std::size_t limit) {
  // O_NONBLOCK: the worker chose what lies there, and a FIFO must not hold us up
  os::UniqueFd const file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return {};
  }
  return os::read_all(file.get(), limit).value_or("");
}

}  // namespace cxxrun::launcher
