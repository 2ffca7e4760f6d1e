#include "src/runtime/checkpoint/file_io.hpp"

#include <cerrno>
#include <unistd.h>

#include "src/base/os/fd_io.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::checkpoint {

bool write_at(int fd, std::span<std::byte const> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    auto const n = os::retried([&] { return ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (n == 0) {
      errno = ENOSPC;
    }
    if (n <= 0) {
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::size_t>(n);
  }
  return true;
}

std::optional<std::size_t> read_at(int fd, std::span<std::byte> bytes, std::uint64_t offset) {
  std::size_t have = 0;
  while (have < bytes.size()) {
    auto const rest = bytes.subspan(have);
    auto const n =
        os::retried([&] { return ::pread(fd, rest.data(), rest.size(), static_cast<off_t>(offset + have)); });
    if (n == 0) {
      break;
    }
    if (n < 0) {
      return std::nullopt;
    }
    have += static_cast<std::size_t>(n);
  }
  return have;
}

bool force_to_disk(int fd) {
  // EINVAL: a file system that has no such thing, for directories.
  return os::retried([&] { return ::fsync(fd); }) == 0 || errno == EINVAL;
}

Failure disk_failure(std::string const& file, int os_errno) {
  auto const failure = [&](Errc code, char const* remedy) {
    return Failure(fail(code, "on " + os::worker_host_name() + ": " + file + remedy, os_errno));
  };
  switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return failure(Errc::io,
                     " does not fit: free some space or name another directory; the checkpoints before it "
                     "are as they were");
    case EACCES:
    case EPERM:
    case EROFS:
      return failure(Errc::permission,
                     " cannot be used: let this user read and write there, or name another directory");
    case ELOOP: return failure(Errc::permission, " is a link or no file, and may lead anywhere: remove it");
    case EMFILE:
    case ENFILE: return failure(Errc::io, " cannot be opened: raise the limit of open files (ulimit -n)");
    default: return failure(Errc::io, ": the disk failed; look at the kernel's log, or name another directory");
  }
}

}  // namespace cxxrun::checkpoint
