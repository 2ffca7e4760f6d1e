// A command line over the environment's defaults, for any table of options. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/facts/environment.hpp"
#include "launcher/options/option_table.hpp"

namespace cxxrun::launcher {

/// Parsing ended the program: print `text` (stdout when code is 0, else stderr) and exit with `code`.
struct EarlyExit {
  int code = 0;
  std::string text;
  bool operator==(EarlyExit const&) const = default;
};

/// Sets what the command line (without argv[0]) says and, where it says nothing, the environment's PET_*. Reads
/// nothing else.
[[nodiscard]] std::optional<EarlyExit> parse(Command const& command, std::vector<std::string> const& arguments,
                                             Environment const& environment = {});

}  // namespace cxxrun::launcher
