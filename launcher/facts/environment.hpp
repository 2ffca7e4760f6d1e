// Environment: the environment as data, so that pure code never calls getenv.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cxxrun::launcher {

using Environment = std::map<std::string, std::string>;

/// The variable's value, if it is set.
[[nodiscard]] inline std::optional<std::string> find_value(Environment const& environment, std::string const& name) {
  auto const found = environment.find(name);
  return found == environment.end() ? std::nullopt : std::optional(found->second);
}

/// The variable's value; "" when it is not set.
[[nodiscard]] inline std::string value_of(Environment const& environment, std::string const& name) {
  return find_value(environment, name).value_or("");
}

/// "K=V" words, sorted, as execve takes them.
[[nodiscard]] inline std::vector<std::string> as_words(Environment const& environment) {
  std::vector<std::string> words;
  words.reserve(environment.size());
  for (auto const& [name, value] : environment) {
    words.push_back(std::string(name).append("=").append(value));
  }
  std::ranges::sort(words);
  return words;
}

}  // namespace cxxrun::launcher
