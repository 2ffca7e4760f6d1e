// Which temporary directories are left over: who was to remove them at its end was killed. Pure. docs/use/logs.md.
//
// Such a directory has an owner file. The agent and its parent hold a lock on it (flock) for as long as one of them
// lives: process ids say nothing where containers share a directory. A directory without the file is to be kept, or is
// being made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cxxrun::launcher {

inline constexpr char const* kOwnerFile = "owner";

/// What the names of a user's temporary directories begin with; six letters or digits follow.
[[nodiscard]] inline std::string temporary_prefix(std::uint32_t uid) {
  return "cxxrun-" + std::to_string(uid) + "-";
}

[[nodiscard]] inline bool is_temporary_name(std::string_view name, std::uint32_t uid) {
  constexpr std::size_t kRandom = 6;  // mkdtemp's
  std::string const prefix = temporary_prefix(uid);
  return name.starts_with(prefix) && name.size() == prefix.size() + kRandom &&
         std::all_of(name.end() - kRandom, name.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); });
}

/// A directory with such a name, and its owner file.
struct FoundDir {
  std::uint32_t uid = 0;
  bool others_write = false;  ///< its group or others may write to it
  bool marked = false;        ///< the owner file is a regular one of the same user
  std::string boot;           ///< what it says: the boot that its agent runs in
  bool held = false;          ///< somebody has its lock
};

/// `boot`: this machine's, "" = not known. A directory of another boot may be that of an agent on another machine,
/// whose lock a shared file system need not show.
[[nodiscard]] inline bool is_left_over(FoundDir const& dir, std::uint32_t uid, std::string const& boot) {
  return dir.uid == uid && !dir.others_write && dir.marked && !boot.empty() && dir.boot == boot && !dir.held;
}

}  // namespace cxxrun::launcher
