// Hard links in a directory: what a claim by link(2) needs.
#pragma once

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "cxxrun/error.hpp"
#include "src/core/text.hpp"

namespace cxxrun::os {

/// Makes a file in `directory`, links it a second time and removes both: whether a claim can be made there. `unique`
/// is part of the names, for others may try at the same time. The error says what is wrong and what to do.
[[nodiscard]] inline Result<void> probe_hard_links(std::string const& directory, std::string const& unique) {
  auto const trouble = [&](std::string const& what, int error) {
    return fail(Errc::environment, printable(directory, 200) + ": " + what + (error == 0 ? "" : ": ") +
                                       (error == 0 ? "" : std::strerror(error)));
  };
  struct stat facts {};
  if (::stat(directory.c_str(), &facts) != 0) {
    return trouble("the directory must exist, on a file system that all nodes share", errno);
  }
  if (!S_ISDIR(facts.st_mode)) {
    return trouble("is not a directory", 0);
  }
  std::string const file = directory + "/.cxxrun-" + unique;
  std::string const link = file + "-link";
  int const opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (opened < 0) {
    return trouble("cannot make a file there", errno);
  }
  ::close(opened);
  int const linked = ::link(file.c_str(), link.c_str()) == 0 ? 0 : errno;
  // Some network file systems report an error for a link that was made: the count tells.
  bool const made = ::stat(file.c_str(), &facts) == 0 && facts.st_nlink == 2;
  ::unlink(link.c_str());
  ::unlink(file.c_str());
  return made ? Result<void>() : trouble("hard links do not work there, use another file system", linked);
}

}  // namespace cxxrun::os
