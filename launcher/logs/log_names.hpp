// What the directories of one agent's logs are called. Pure. Layout in docs/use/logs.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cxxrun::launcher {

struct LogRoot {
  std::string path;        ///< "" = no files at all
  bool temporary = false;  ///< to be removed at the end
  bool operator==(LogRoot const&) const = default;
};

/// A run id or host as one component of a path: slashes, control characters and a leading dot become '_', at most
/// 200 bytes, never empty.
[[nodiscard]] std::string path_component(std::string_view name);
/// `<root>/attempt_<generation>`.
[[nodiscard]] std::string attempt_dir(std::string const& root, std::uint64_t generation);
/// `<root>/attempt_<generation>/<local_rank>`.
[[nodiscard]] std::string worker_log_dir(std::string const& root, std::uint64_t generation, std::uint32_t local_rank);

}  // namespace cxxrun::launcher
