// The table of cxxrun's options: names, help and meaning, in the order of --help. Pure.
//
// One row is the whole truth about an option: the parser, --help, the PET_* variables, the suggestion for a typing
// error and the tests that compare the man page and the shell completion all read it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/options/options.hpp"

namespace cxxrun::launcher {

struct OptionRow {
  char const* group;       ///< heading in --help
  char const* short_name;  ///< "-r", or ""
  char const* name;        ///< "--nproc-per-node"; the underscored spelling is accepted too
  char const* value_name;  ///< "N"; "" = a flag
  char const* help;        ///< one line
  Result<void> (*apply)(Options&, std::string const&);  ///< a flag gets "1"; null for --help and --version
  char const* also_from = "";                           ///< a variable read after PET_*, named by torchrun
};

[[nodiscard]] std::span<OptionRow const> option_rows();

/// "--nproc-per-node" → "--nproc_per_node".
[[nodiscard]] std::string underscored(std::string_view name);
/// "--nproc-per-node" → "PET_NPROC_PER_NODE".
[[nodiscard]] std::string pet_variable(std::string_view name);

/// An option of torchrun's that cxxrun refuses, and what to do instead.
struct RefusedOption {
  char const* name;
  char const* instead;
};
[[nodiscard]] std::span<RefusedOption const> refused_options();

/// The line for an argument that no row knows: refused by name, or unknown with the nearest spelling.
[[nodiscard]] std::string explain_unknown(std::string_view argument);

/// The text of --help: grouped, at most 64 lines of at most 100 columns.
[[nodiscard]] std::string help_text();

}  // namespace cxxrun::launcher
