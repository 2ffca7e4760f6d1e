#include "launcher/facts/kernel_release.hpp"

#include <charconv>
#include <utility>

namespace cxxrun::launcher {

bool kernel_too_old(std::string_view release) {
  std::pair<int, int> version;
  auto const* const end = release.data() + release.size();
  auto const [dot, error] = std::from_chars(release.data(), end, version.first);
  if (error != std::errc{} || dot == end || *dot != '.' ||
      std::from_chars(dot + 1, end, version.second).ec != std::errc{}) {
    return false;
  }
  return version < std::pair(4, 18);
}

}  // namespace cxxrun::launcher
