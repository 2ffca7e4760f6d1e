// Environment: the environment as data, so that pure code never calls getenv.
#pragma once

#include <map>
#include <string>

namespace cxxrun::launcher {

using Environment = std::map<std::string, std::string>;

/// The variable's value; "" when it is not set.
[[nodiscard]] inline std::string value_of(Environment const& environment, std::string const& name) {
  auto const found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace cxxrun::launcher
