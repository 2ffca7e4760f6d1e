// What a step of a state machine says, for traces and comparisons.
#pragma once

#include <string>
#include <vector>

#include "src/base/core/turn.hpp"

namespace cxxrun {

/// All lines as one.
[[nodiscard]] inline std::string text_of(std::vector<Line> const& lines) {
  std::string text;
  for (auto const& line : lines) {
    text += (text.empty() ? "" : "; ") + line.text;
  }
  return text;
}

}  // namespace cxxrun
