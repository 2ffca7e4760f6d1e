#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "launcher/doctor/look.hpp"
#include "launcher/logs/log_dir.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/random.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr std::uint32_t kFiles = 1000;  // of all nodes together: they may share one server of metadata
constexpr std::uint32_t kFewest = 20;
constexpr Millis kLongestLook{2000};  // for making them and for opening them; then fewer have to do

std::string type_of(std::string const& dir) {
  struct Named {
    std::uint32_t magic;
    char const* name;
  };
  static constexpr std::array kTypes{
      Named{0x6969, "nfs"},        Named{0x0bd00bd0, "lustre"}, Named{0x47504653, "gpfs"},
      Named{0x19830326, "beegfs"}, Named{0xef53, "ext4"},       Named{0x58465342, "xfs"},
      Named{0x9123683e, "btrfs"},  Named{0x01021994, "tmpfs"},  Named{0x794c7630, "overlay"},
      Named{0x00c36400, "ceph"},   Named{0x65735546, "fuse"},   Named{0xff534d42, "cifs"},
      Named{0xfe534d42, "smb2"},   Named{0x2fc12fc1, "zfs"},    Named{0x73717368, "squashfs"}};
  struct statfs info {};
  if (statfs(dir.c_str(), &info) != 0) {
    return std::strerror(errno);
  }
  for (auto const& type : kTypes) {
    if (static_cast<std::uint32_t>(info.f_type) == type.magic) {
      return type.name;
    }
  }
  return "another file system";
}

/// Leaves two files. A quota may let files be made, and refuse the first byte, or its way to the server.
std::string write_error(os::Folder const& dir) {
  auto const file = dir.create("old");
  bool const written = file && ::write(file.get(), "cxxrun", 6) == 6 && ::fsync(file.get()) == 0;
  return written && dir.create("new") ? "" : std::strerror(errno);
}

/// Each file has one kind: on NFS the two know of each other, and the second one would be refused.
std::string lock_error(os::Folder const& dir) {
  auto const flocked = dir.open_own("old");
  auto const posix = dir.open_own("new");
  struct flock whole {};
  whole.l_type = F_WRLCK;
  bool const locked = ::flock(flocked.get(), LOCK_EX | LOCK_NB) == 0 && ::fcntl(posix.get(), F_SETLK, &whole) == 0;
  return locked ? "" : std::strerror(errno);
}

/// Opens up to so many files that it has made; how many, and how long it took.
void time_opens(os::Folder const& dir, std::uint32_t files, Say const& say) {
  std::uint32_t made = 0;
  for (auto const end = Clock::now() + kLongestLook; made < files && Clock::now() < end; ++made) {
    if (!dir.create(std::to_string(made))) {
      break;
    }
  }
  auto const begin = Clock::now();
  std::uint32_t opened = 0;
  while (opened < made && Clock::now() < begin + kLongestLook && dir.open_file(std::to_string(opened))) {
    ++opened;
  }
  tell(say, "fs.open_ms", std::to_string(std::chrono::duration<double, std::milli>(Clock::now() - begin).count()));
  tell(say, "fs.opened", std::to_string(opened));
}

}  // namespace

void look_at_directory(Wanted const& wanted, os::Caretaker const& caretaker, Say const& say) {
  std::error_code failed;
  auto const here = std::filesystem::current_path(failed).string();
  if (failed) {
    tell(say, "fs.error", "the working directory: " + failed.message());
    return;
  }
  tell(say, "fs.dir", here);
  tell(say, "fs.type", type_of(here));
  auto const name = ".cxxrun-doctor-" + random_hex(16);
  auto const scratch = here + "/" + name;
  caretaker.remove_at_end(scratch);
  auto const above = os::Folder::open(here);
  auto const dir = above ? above.make_below(name, 0700) : os::Folder();
  auto const error = dir ? write_error(dir) : std::strerror(errno);
  if (error.empty()) {
    tell(say, "fs.lock", lock_error(dir));
    tell(say, "fs.rename", dir.rename("new", "old") ? "" : std::strerror(errno));
    time_opens(dir, std::max(kFewest, kFiles / std::max(1U, wanted.nodes)), say);
  } else {
    tell(say, "fs.error", "cannot write there: " + error);
  }
  std::filesystem::remove_all(scratch, failed);
}

void look_at_logs(Wanted const& wanted, Environment const& environment, Say const& say) {
  if (wanted.log_dir == "/dev/null") {
    tell(say, "log.dir", "no files (--log-dir /dev/null)");
    return;
  }
  auto const temporary = value_of(environment, "TMPDIR");
  std::string dir = !wanted.log_dir.empty() ? wanted.log_dir : !temporary.empty() ? temporary : "/tmp";
  tell(say, "log.dir", dir);  // which may hang
  if (auto const usable = check_log_dir(wanted.log_dir, temporary); !usable) {
    tell(say, "log.error", usable.error().message());
  } else if (auto const first = check_temporary(dir); wanted.log_dir.empty() && !first) {
    tell(say, "log.unused", first.error().message());
    dir = "/tmp";
    tell(say, "log.dir", dir);
  }
  struct statvfs space {};
  std::filesystem::path there = dir;
  while (statvfs(there.c_str(), &space) != 0 && there.has_relative_path()) {
    there = there.parent_path();
  }
  tell(say, "log.free", std::to_string(space.f_bavail * space.f_frsize));
}

void look_at_home(Environment const& environment, Say const& say) {
  auto const home = value_of(environment, "HOME");
  tell(say, "home.dir", home);
  if (home.empty()) {
    tell(say, "home.error", "HOME is not set");
  } else if (::access(home.c_str(), W_OK | X_OK) != 0) {
    tell(say, "home.error", home + ": " + std::strerror(errno));
  }
}

}  // namespace cxxrun::launcher::doctor
