#include "launcher/place/private_file.hpp"

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "src/base/os/fd_io.hpp"
#include "src/base/os/folder.hpp"

namespace cxxrun::launcher {

Result<std::string> read_private_file(std::string const& path, std::size_t most, std::string const& remedy) {
  auto const folder = os::Folder::above(path);
  auto const file = folder ? folder.open_file(os::name_in(path)) : os::UniqueFd();
  struct stat status {};
  if (!file && errno == ELOOP) {
    return fail(Errc::protocol, path + " is no regular file, or a link: " + remedy);
  }
  if (!file || fstat(file.get(), &status) != 0) {
    bool const missing = errno == ENOENT || errno == ENOTDIR;
    return fail(missing           ? Errc::not_found
                : errno == EACCES ? Errc::permission
                                  : Errc::io,
                "cannot read " + path, errno);
  }
  if (status.st_uid != geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return fail(Errc::permission, path + " is open to others than this user: " + remedy);
  }
  auto text = os::read_all(file.get(), most);
  return text ? Result<std::string>(*std::move(text)) : fail(Errc::io, "cannot read " + path, errno);
}

}  // namespace cxxrun::launcher
