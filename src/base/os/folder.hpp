// Folder: a directory that others may be able to write to, and the files of ours in it. Shell.
//
// Every file that we make or read in a directory of the user's goes through here; scripts/check_layers.py says who may
// not. A name in such a directory may be a link of a stranger's, and the directory's own name may come to mean another
// one: so the directory is kept as a descriptor, no link in it is followed, and what is there already is looked at
// before it is used. Functions that give a descriptor, a Folder or nothing leave errno: ELOOP, it is a link, no regular
// file, or has a second name; EPERM, it is another user's; what the system says otherwise. All of them block as the
// file system does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// At most `most` bytes of a regular file that the system or an administrator has put at `path`, wherever links lead;
/// "" when it cannot be read.
[[nodiscard]] std::string read_system_file(std::string const& path, std::size_t most = 65'536);
/// `most` less this process's umask. Without /proc what is given others is taken away.
[[nodiscard]] mode_t less_umask(mode_t most);
/// In a user namespace that has no number for it, root of the host looks like nobody; so does every other user there.
[[nodiscard]] bool is_root(uid_t owner);
/// Whether somebody besides its owner may make and rename files in a directory of this mode and group. The group that
/// a user has for himself is nobody.
[[nodiscard]] bool others_may_write(struct stat const& directory);

inline constexpr mode_t kForAll = 0666;  ///< less the umask
inline constexpr mode_t kForUs = 0600;

/// The directory in which the file or directory `path` is: "." of a name alone.
[[nodiscard]] std::string parent_of(std::string path);
/// The last name of a path that has one.
[[nodiscard]] inline std::string name_in(std::string const& path) {
  return path.substr(path.find_last_of('/') + 1);
}

class Folder {
 public:
  Folder() = default;
  /// Of a directory, opened for reading or as a path.
  explicit Folder(UniqueFd directory) : fd_(std::move(directory)) {}

  /// Links on the way are followed: whoever has given us the path has chosen them.
  [[nodiscard]] static Folder open(std::string const& path);
  /// The one in which the file or directory `path` is.
  [[nodiscard]] static Folder above(std::string const& path);
  /// above(path).below(its last name)
  [[nodiscard]] static Folder of_ours(std::string const& path);

  /// A directory of this user's or root's, and no link to one.
  [[nodiscard]] Folder below(std::string const& name) const;
  /// The same, made where it is missing: `mode` less the umask.
  [[nodiscard]] Folder make_below(std::string const& name, mode_t mode = 0777) const;

  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(fd_); }
  [[nodiscard]] int get() const { return fd_.get(); }

  /// A new file to read and write, which nobody else can open before it is published. EEXIST, when there is one.
  [[nodiscard]] UniqueFd create(std::string const& name) const;
  /// To append to, made with mode 0644 less the umask where it is missing. Regular, or a character device.
  [[nodiscard]] UniqueFd append_to(std::string const& name) const;
  /// A regular file, whosever it is.
  [[nodiscard]] UniqueFd open_file(std::string const& name) const;
  /// A regular file of this user's with one name, to read and write.
  [[nodiscard]] UniqueFd open_own(std::string const& name) const;
  /// At most `most` bytes of a regular file of this user's or root's.
  [[nodiscard]] std::optional<std::string> read(std::string const& name, std::size_t most) const;
  /// Whatever has that name is this text afterwards, or as it was before: false and errno.
  [[nodiscard]] bool replace(std::string const& name, std::string_view text, mode_t mode) const;
  /// Gives a file that create() has made its last name and `mode`, less the umask unless it is kForUs.
  [[nodiscard]] bool publish(int file, std::string const& temporary, std::string const& name, mode_t mode) const;
  [[nodiscard]] bool rename(std::string const& from, std::string const& to) const;
  /// A second name for a file; EEXIST, when there is such a name.
  [[nodiscard]] bool link(std::string const& name, std::string const& second) const;
  bool remove(std::string const& name) const noexcept;
  bool remove_directory(std::string const& name) const noexcept;
  /// All but "." and "..", at most so many; nothing and errno.
  [[nodiscard]] std::optional<std::vector<std::string>> names(std::size_t most = SIZE_MAX) const;

  /// Whether what `facts` are of belongs to this user: by his number, or by that which files that he makes here get
  /// from a server that takes all users for one.
  [[nodiscard]] bool is_own(struct stat const& facts) const;
  /// Whether `name` leads to this file, and not to another one meanwhile.
  [[nodiscard]] bool leads_to(std::string const& name, int file) const;

 private:
  UniqueFd fd_;
};

/// `path` is this text afterwards; false and errno. What has that name is replaced, not written to, unless it is a
/// device or pipe, or a file of this user's in a directory that he may not write to. A link of this user's or root's is
/// followed; one of another user's is replaced like a file.
[[nodiscard]] bool write_path(std::string const& path, std::string_view text);

}  // namespace cxxrun::os
