// Parsing: the command line over the environment's defaults. Pure.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"

namespace cxxrun::launcher {

/// Parsing ended the program: print `text` (stdout when code is 0, else stderr) and exit with `code`.
struct EarlyExit {
  int code = 0;
  std::string text;
  bool operator==(EarlyExit const&) const = default;
};

/// Parses the command line (without argv[0]) over the environment's PET_* defaults. Pure: reads nothing else.
[[nodiscard]] std::variant<Options, EarlyExit> parse_options(std::vector<std::string> const& arguments,
                                                             Environment const& environment);

}  // namespace cxxrun::launcher
