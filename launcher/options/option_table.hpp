// Tables of options, one per program: names, help and meaning, in the order of --help. Pure.
//
// One row is the whole truth about an option: the parser, --help, the PET_* variables, the suggestion for a typing
// error, and what scripts/generate makes of it: manual pages, completions, a table of docs/use/torchrun.md.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

struct OptionRow;
/// Puts the value ("1" for a flag) where it belongs. Errors say what is expected, not which option: the caller knows.
using Apply = std::function<Result<void>(std::string const& value, OptionRow const& row)>;

struct OptionRow {
  char const* name;             ///< "--nproc-per-node"; the underscored spelling is accepted too
  char const* value_name;       ///< "N"; "on|off" = one of these words; "[=X]" = may be left out; "" = a flag
  char const* help;             ///< one line
  Apply apply;                  ///< nothing for --help and --version
  char const* short_name = "";  ///< "-r"
  char const* also_from = "";   ///< a variable read after PET_*, named by torchrun
  bool ours = false;            ///< torchrun does not have it: no abbreviation stands for it
};
[[nodiscard]] inline OptionRow&& ours(OptionRow&& row) {
  row.ours = true;
  return std::move(row);
}
inline OptionRow const version_row = ours({"--version", "", "show the version, and end", {}});
inline OptionRow const help_row{"--help", "", "show this text, and end", {}, "-h"};

struct OptionGroup {
  char const* heading;  ///< in --help; "" = none
  std::vector<OptionRow> rows;
};

/// Options of another launcher that mean one thing, and what to type instead.
struct ForeignOption {
  char const* names;     ///< "-np --np"
  char const* launcher;  ///< "mpirun"
  char const* instead;
};

/// A program's command line. The rows refer to what they set.
struct Command {
  char const* name;   ///< "cxxrun-store"
  char const* above;  ///< the options in --help: usage and purpose
  char const* below;
  std::vector<OptionGroup> groups;  ///< version_row and help_row are in the last
  /// Given the words after the options. Says what no row can know.
  std::function<Result<void>(std::vector<std::string> const& words)> finish = [](auto&) { return Result<void>(); };
  bool runs_program = false;  ///< there may be words: another command line
  std::vector<ForeignOption> foreign = {};

  [[nodiscard]] std::vector<OptionRow> rows() const;  ///< of all groups
};

/// "--nproc-per-node" → "PET_NPROC_PER_NODE".
[[nodiscard]] std::string pet_variable(std::string_view name);

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

[[nodiscard]] Error expected(std::string what);
[[nodiscard]] Result<std::string> parse_text(std::string_view text);
[[nodiscard]] Result<bool> parse_flag(std::string_view text);
/// Where the value stands among the words of the row.
[[nodiscard]] Result<std::size_t> find_word(std::string const& value, OptionRow const& row);
[[nodiscard]] Result<void> check_word(std::string const& value, OptionRow const& row);

template <class Target, class Parse>
Apply set(Target& target, Parse parse) {
  return [&target, parse](std::string const& value, OptionRow const& /*row*/) -> Result<void> {
    auto parsed = parse(value);
    if (!parsed) {
      return parsed.error();
    }
    target = *std::move(parsed);
    return {};
  };
}

/// The value is checked, and dropped.
template <class Parse>
Apply only_check(Parse parse) {
  return [parse](std::string const& value, OptionRow const& /*row*/) -> Result<void> {
    auto const parsed = parse(value);
    return parsed ? Result<void>() : parsed.error();
  };
}

/// The first word of the row stands for the first of `values`, and so on.
template <class Target, class Value>
Apply choose(Target& target, std::initializer_list<Value> values) {
  return [&target, all = std::vector(values)](std::string const& value, OptionRow const& row) -> Result<void> {
    auto const place = find_word(value, row);
    if (!place) {
      return place.error();
    }
    target = all.at(*place);
    return {};
  };
}

/// The word itself.
[[nodiscard]] Apply set_word(std::string& target);

}  // namespace cxxrun::launcher
