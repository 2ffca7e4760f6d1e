// Folder: a directory to which other users may be able to write, and our files in it. Shell.
//
// All files that we make or read in a user's directory are opened here; scripts/check_layers.py lists the exceptions. A
// name in such a directory may be another user's link, and the directory's own name may later lead elsewhere. So a
// Folder keeps the directory as a descriptor, follows no link in it, and checks what exists before it uses it.
// Functions that return a descriptor, a Folder or nothing set errno: ELOOP, it is a link, no regular file, or has a
// second name; EPERM, it belongs to another user; else the system's own. All of them block as the file system does.
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

/// At most `most` bytes of a regular file of the system or of an administrator. Follows links. "" when it cannot be
/// read.
[[nodiscard]] std::string read_system_file(std::string const& path, std::size_t most = 65'536);
/// `most` without the bits of this process's umask. Without /proc the umask is taken to be 077.
[[nodiscard]] mode_t less_umask(mode_t most);
/// Whether the owner is root. In a user namespace without a mapping for root, the host's root looks like nobody, as
/// every other unmapped user does; nobody then counts as root.
[[nodiscard]] bool is_root(uid_t owner);
/// Whether other users than its owner may make and rename files in the open `directory` with these facts. The private
/// group of this user does not count as others, unless an ACL names more users.
[[nodiscard]] bool others_may_write(int directory, struct stat const& facts);

inline constexpr mode_t kForAll = 0666;  ///< less the umask
inline constexpr mode_t kForUs = 0600;

/// The directory that contains `path`; "." for a bare name.
[[nodiscard]] std::string parent_of(std::string path);
/// The last component of a path.
[[nodiscard]] inline std::string name_in(std::string const& path) {
  return path.substr(path.find_last_of('/') + 1);
}

class Folder {
 public:
  Folder() = default;
  /// `directory`: opened for reading or with O_PATH.
  explicit Folder(UniqueFd directory) : fd_(std::move(directory)) {}

  /// Follows links on the way: the user who gave us the path chose them.
  [[nodiscard]] static Folder open(std::string const& path);
  /// The directory that contains `path`.
  [[nodiscard]] static Folder above(std::string const& path);
  /// above(path).below(name_in(path))
  [[nodiscard]] static Folder of_ours(std::string const& path);

  /// A directory of this user or of root, not a link to one.
  [[nodiscard]] Folder below(std::string const& name) const;
  /// The same, but makes it if it is missing, with `mode` less the umask.
  [[nodiscard]] Folder make_below(std::string const& name, mode_t mode = 0777) const;

  /// A new directory for this user alone. One file in it has the directory's name, for remove_marked().
  [[nodiscard]] Folder make_marked(std::string const& name) const;

  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(fd_); }
  [[nodiscard]] int get() const { return fd_.get(); }

  /// A new file to read and write, which no other user can open before publish(). EEXIST when the name exists.
  [[nodiscard]] UniqueFd create(std::string const& name) const;
  /// A file to append to, made with mode 0644 less the umask if it is missing. Regular, or a character device.
  [[nodiscard]] UniqueFd append_to(std::string const& name) const;
  /// A regular file of any user.
  [[nodiscard]] UniqueFd open_file(std::string const& name) const;
  /// The same of this user or of root.
  [[nodiscard]] UniqueFd open_trusted(std::string const& name) const;
  /// A regular file of this user with a single name, to read and write.
  [[nodiscard]] UniqueFd open_own(std::string const& name) const;
  /// At most `most` bytes of a regular file of this user or of root.
  [[nodiscard]] std::optional<std::string> read(std::string const& name, std::size_t most) const;
  /// Replaces what has that name by a file with this text. On failure (false with errno) the old one is unchanged.
  [[nodiscard]] bool replace(std::string const& name, std::string_view text, mode_t mode) const;
  /// Gives a file from create() its final name and `mode`, less the umask unless `mode` is kForUs.
  [[nodiscard]] bool publish(int file, std::string const& temporary, std::string const& name, mode_t mode) const;
  [[nodiscard]] bool rename(std::string const& from, std::string const& to) const;
  /// Adds a second name to a file. EEXIST when that name exists.
  [[nodiscard]] bool link(std::string const& name, std::string const& second) const;
  bool remove(std::string const& name) const noexcept;
  bool remove_directory(std::string const& name) const noexcept;
  /// Removes a directory from make_marked() with the files in it. Another directory that has been put in its place
  /// stays.
  bool remove_marked(std::string const& name) const;
  /// At most `most` names, without "." and "..". Nothing with errno if they cannot be read.
  [[nodiscard]] std::optional<std::vector<std::string>> names(std::size_t most = SIZE_MAX) const;

  /// Whether the file with these `facts` belongs to this user: by the user id, or by the id that a file server gives to
  /// new files here when it maps all users to one.
  [[nodiscard]] bool is_own(struct stat const& facts) const;
  /// Whether `name` still leads to this file.
  [[nodiscard]] bool leads_to(std::string const& name, int file) const;

 private:
  UniqueFd fd_;
};

/// Makes `path` a file with this text; false with errno. Replaces what has that name and does not write to it, except
/// to a device or pipe of this user or of root, and to a file of this user in a directory to which the user may not
/// write. Follows a link of this user or of root; replaces another user's link or pipe like a file.
[[nodiscard]] bool write_path(std::string const& path, std::string_view text);

}  // namespace cxxrun::os
