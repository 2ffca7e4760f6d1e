// Colour: whether messages on stderr may have it.
#pragma once

#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace cxxrun::os {

/// Only on a terminal, and not against the user's wish: NO_COLOR with anything in it (no-color.org).
[[nodiscard]] inline bool stderr_takes_colour() {
  char const* const refused = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): nobody changes it
  return isatty(STDERR_FILENO) != 0 && (refused == nullptr || std::string_view(refused).empty());
}

}  // namespace cxxrun::os
