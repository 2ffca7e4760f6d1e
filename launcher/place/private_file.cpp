#include "launcher/place/private_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "src/os/fd.hpp"
#include "src/os/fd_io.hpp"

namespace cxxrun::launcher {

Result<std::string> read_private_file(std::string const& path, std::size_t most, std::string const& remedy) {
  os::UniqueFd const file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) {
    bool const missing = errno == ENOENT || errno == ENOTDIR;
    return fail(missing           ? Errc::not_found
                : errno == EACCES ? Errc::permission
                                  : Errc::io,
                "cannot read " + path, errno);
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return fail(Errc::protocol, path + " is no regular file: " + remedy);
  }
  if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(Errc::permission, path + " is open to others than this user: " + remedy);
  }
  auto text = os::read_all(file.get(), most);
  return text ? Result<std::string>(*std::move(text)) : fail(Errc::io, "cannot read " + path, errno);
}

}  // namespace cxxrun::launcher
