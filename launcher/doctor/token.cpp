#include "launcher/doctor/token.hpp"

#include <cerrno>
#include <sys/file.h>

#include "src/base/os/folder.hpp"

namespace cxxrun::launcher::doctor {

os::UniqueFd show_token(std::string const& name, os::Caretaker const& caretaker, Facts& facts) {
  caretaker.remove_at_end(name);
  auto const folder = os::Folder::above(name);
  auto token = folder ? folder.create(os::name_in(name)) : os::UniqueFd();
  facts["fs.shared"] = token ? "1" : "0";
  facts["fs.locked"] = token && ::flock(token.get(), LOCK_EX | LOCK_NB) == 0 ? "1" : "0";
  return token;
}

void look_for_token(std::string const& name, Facts& facts) {
  auto const folder = os::Folder::above(name);
  auto const token = folder ? folder.open_file(os::name_in(name)) : os::UniqueFd();
  facts["fs.shared"] = token ? "1" : "0";
  bool const locked = token && ::flock(token.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  facts["fs.lock_seen"] = locked ? "1" : "0";
}

}  // namespace cxxrun::launcher::doctor
