#include "launcher/doctor/token.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>

namespace cxxrun::launcher::doctor {

os::UniqueFd show_token(std::string const& name, os::Caretaker const& caretaker, Facts& facts) {
  caretaker.remove_at_end(name);
  os::UniqueFd token(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  facts["fs.shared"] = token ? "1" : "0";
  facts["fs.locked"] = token && ::flock(token.get(), LOCK_EX | LOCK_NB) == 0 ? "1" : "0";
  return token;
}

void look_for_token(std::string const& name, Facts& facts) {
  os::UniqueFd const token(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  facts["fs.shared"] = token ? "1" : "0";
  bool const locked = token && ::flock(token.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  facts["fs.lock_seen"] = locked ? "1" : "0";
}

}  // namespace cxxrun::launcher::doctor
