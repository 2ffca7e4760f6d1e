#include "src/base/core/memory_counters.hpp"

#include <algorithm>

#include "src/base/core/text.hpp"

namespace cxxrun {
namespace {

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62U;  // version 1 rounds the largest number to pages

struct Mount {
  std::string root;
  std::string point;
};

/// mountinfo writes blanks, tabs, newlines and backslashes as \040 and the like.
std::string unescaped(std::string_view text) {
  auto const octal = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

/// "36 35 0:33 ROOT POINT rw,relatime shared:1 - cgroup cgroup rw,memory"
std::optional<Mount> mount_of(std::string_view mountinfo, std::string_view controller) {
  for (auto const& line : split(mountinfo, '\n')) {
    auto const words = split(line, ' ');
    auto const dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 6 || words.end() - dash < 4) {
      continue;
    }
    auto const options = split(dash[3], ',');
    bool const has_it = std::find(options.begin(), options.end(), controller) != options.end();
    if (controller.empty() ? dash[1] == "cgroup2" : dash[1] == "cgroup" && has_it) {
      return Mount{unescaped(words[3]), unescaped(words[4])};
    }
  }
  return std::nullopt;
}

/// "4:memory:/a/b", "0::/a/b"; a name may hold colons, a controller may not.
std::optional<std::string> group_in(std::string_view cgroup, std::string_view controller) {
  for (auto const& line : split(cgroup, '\n')) {
    auto const first = line.find(':');
    auto const second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    auto const controllers = split(line.substr(first + 1, second - first - 1), ',');
    bool const has_it = std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
    if (controller.empty() ? line.starts_with("0::") : has_it) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

/// `controller`: of version 1; "": version 2.
std::optional<GroupHierarchy> find(std::string_view cgroup, std::string_view mountinfo, std::string_view controller) {
  auto group = group_in(cgroup, controller);
  auto mount = mount_of(mountinfo, controller);
  if (!group || !mount || !group->starts_with('/') || !mount->root.starts_with('/')) {
    return std::nullopt;
  }
  std::string const top = mount->root == "/" ? "" : mount->root;
  std::string below = *group == "/" ? "" : *group;
  bool const inside = below == top || below.starts_with(top + "/");
  if (!inside || (below + "/").find("/../") != std::string::npos) {
    return std::nullopt;
  }
  below.erase(0, top.size());
  GroupHierarchy found{controller.empty(), mount->point, top, {}};
  for (; !below.empty(); below.erase(below.rfind('/'))) {
    found.below.push_back(below);
  }
  found.below.emplace_back();
  return found;
}

}  // namespace

std::optional<GroupHierarchy> find_groups(std::string_view cgroup, std::string_view mountinfo,
                                          std::string_view controller) {
  auto found = find(cgroup, mountinfo, controller);
  return found ? found : find(cgroup, mountinfo, {});
}

std::optional<std::uint64_t> counter_in(std::string_view text, std::string_view key) {
  for (auto const& line : split(text, '\n')) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return number_in<std::uint64_t>(trim(std::string_view(line).substr(key.size())));
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> limit_in(std::string_view text) {
  auto const number = number_in<std::uint64_t>(trim(text));
  return number && *number < kNoLimit ? number : std::nullopt;
}

}  // namespace cxxrun
