// What the directories of one agent's logs are called. Pure. Layout in docs/use/logs.md.
#pragma once

#include <algorithm>
#include <cstddef>
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
[[nodiscard]] inline std::string path_component(std::string_view name) {
  constexpr std::size_t kLongest = 200;  // NAME_MAX is 255: room for host and number
  std::string safe(name.substr(0, kLongest));
  std::replace_if(
      safe.begin(), safe.end(), [](unsigned char c) { return c == '/' || c < 0x20 || c == 0x7f; }, '_');
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

/// What the worker whose error file that is has imported: launcher/warm/imports.hpp.
[[nodiscard]] inline std::string imports_file(std::string const& error_file) {
  return error_file.substr(0, error_file.rfind('/') + 1) + "imports";
}

}  // namespace cxxrun::launcher
