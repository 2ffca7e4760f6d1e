#include "launcher/logs/log_names.hpp"

#include <algorithm>

namespace cxxrun::launcher {

constexpr std::size_t kLongestComponent = 200;  // NAME_MAX is 255: room for host and number

std::string path_component(std::string_view name) {
  std::string safe(name.substr(0, kLongestComponent));
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

std::string attempt_dir(std::string const& root, std::uint64_t generation) {
  return root + "/attempt_" + std::to_string(generation);
}

std::string worker_log_dir(std::string const& root, std::uint64_t generation, std::uint32_t local_rank) {
  return attempt_dir(root, generation) + "/" + std::to_string(local_rank);
}

}  // namespace cxxrun::launcher
