// Names of an agent's directories, and which temporary ones an agent has left behind. Pure. docs/use/logs.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cxxrun::launcher {

struct LogRoot {
  std::string path;        ///< "" = no files at all
  bool temporary = false;  ///< remove it at the end
  bool operator==(LogRoot const&) const = default;
};

/// A run id or host as one component of a path: slashes, control characters and a leading dot become '_', at most
/// 200 bytes, never empty.
[[nodiscard]] inline std::string path_component(std::string_view name) {
  constexpr std::size_t kLongest = 200;  // NAME_MAX is 255: leaves room for host and number
  std::string safe(name.substr(0, kLongest));
  std::ranges::replace_if(
      safe, [](unsigned char c) { return c == '/' || c < 0x20 || c == 0x7f; }, '_');
  if (safe.empty()) {
    return "_";
  }
  if (safe.front() == '.') {
    safe.front() = '_';
  }
  return safe;
}
/// `<root>/attempt_<generation>`.
[[nodiscard]] inline std::string attempt_dir(std::string const& root, std::uint64_t generation) {
  return root + "/attempt_" + std::to_string(generation);
}
/// `<root>/attempt_<generation>/<local_rank>`.
[[nodiscard]] inline std::string worker_log_dir(std::string const& root, std::uint64_t generation,
                                                std::uint32_t local_rank) {
  return attempt_dir(root, generation) + "/" + std::to_string(local_rank);
}
/// The worker's TORCHELASTIC_ERROR_FILE.
[[nodiscard]] inline std::string worker_error_file(std::string const& root, std::uint64_t generation,
                                                   std::uint32_t local_rank) {
  return worker_log_dir(root, generation, local_rank) + "/error.json";
}

/// The file that lists what the worker with that error file has imported: launcher/warm/warm_command.hpp.
[[nodiscard]] inline std::string imports_file(std::string const& error_file) {
  return error_file.substr(0, error_file.rfind('/') + 1) + "imports";
}

// ---- temporary directories --------------------------------------------------------------------------------------
//
// A temporary directory is left behind when the processes that would remove it are killed. Each has an owner file. The
// agent and its parent hold a lock on it (flock) while one of them lives: process ids say nothing where containers
// share a directory. A directory without an owner file is kept on purpose, or is just being made.

inline constexpr char const* kOwnerFile = "owner";

/// A user's temporary directories have this prefix and six letters or digits.
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
  bool marked = false;        ///< the owner file is a regular file of the same user
  std::string boot;           ///< content of the owner file: the boot id of its agent's node
  bool held = false;          ///< a process holds the lock
};

/// `boot`: this machine's boot id, "" = not known. A directory with another boot id may belong to an agent on another
/// machine, whose lock a shared file system need not show.
[[nodiscard]] inline bool is_left_over(FoundDir const& dir, std::uint32_t uid, std::string const& boot) {
  return dir.uid == uid && !dir.others_write && dir.marked && !boot.empty() && dir.boot == boot && !dir.held;
}

}  // namespace cxxrun::launcher
