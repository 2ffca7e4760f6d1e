// Tables of options, one per program: names, help and meaning, in the order of --help. Pure.
//
// A row is the only description of an option. The parser, --help, the PET_* variables and the suggestions for misspelt
// options use it, and scripts/generate makes manual pages, completions and a table of docs/use/torchrun.md from it.
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
/// Parses the value ("1" for a flag) and stores it. Errors say what is expected; the caller adds the name of the
/// option.
using Apply = std::function<Result<void>(std::string const& value, OptionRow const& row)>;

struct OptionRow {
  char const* name;             ///< "--nproc-per-node"; the underscored spelling is accepted too
  char const* value_name;       ///< "N"; "on|off" = one of these words; "[=X]" = optional; "" = a flag
  char const* help;             ///< one line
  Apply apply;                  ///< empty for --help and --version
  char const* short_name = "";  ///< "-r"
  char const* also_from = "";   ///< a variable of torchrun that is read after PET_*
  bool ours = false;            ///< torchrun does not have it; it cannot be abbreviated
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

/// Options of another launcher, and what to type instead.
struct ForeignOption {
  char const* names;     ///< "-np --np"
  char const* launcher;  ///< "mpirun"
  char const* instead;
};

/// A program's command line. The rows hold references to the options that they set.
struct Command {
  char const* name;                 ///< "cxxrun-store"
  char const* above;                ///< text of --help before the options: usage and purpose
  char const* below;                ///< text of --help after them
  std::vector<OptionGroup> groups;  ///< the last one has version_row and help_row
  /// Takes the words after the options, and checks what no single row can.
  std::function<Result<void>(std::vector<std::string> const& words)> finish = [](auto&) { return Result<void>(); };
  bool runs_program = false;  ///< words may follow the options: the command line of a program
  std::vector<ForeignOption> foreign = {};

  [[nodiscard]] std::vector<OptionRow> rows() const;  ///< of all groups
};

/// "--nproc-per-node" → "PET_NPROC_PER_NODE".
[[nodiscard]] std::string pet_variable(std::string_view name);

/// The program ends here: print `text` (to stdout if code is 0, else to stderr) and exit with `code`.
struct EarlyExit {
  int code = 0;
  std::string text;
  bool operator==(EarlyExit const&) const = default;
};

/// Applies the command line (without argv[0]) and, for options that it does not give, the PET_* variables of the
/// environment.
[[nodiscard]] std::optional<EarlyExit> parse(Command const& command, std::vector<std::string> const& arguments,
                                             Environment const& environment = {});

[[nodiscard]] Error expected(std::string what);
[[nodiscard]] Result<std::string> parse_text(std::string_view text);
[[nodiscard]] Result<bool> parse_flag(std::string_view text);
/// The position of the value among the words of the row.
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

/// Checks the value and drops it.
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

/// Stores the word itself.
[[nodiscard]] Apply set_word(std::string& target);

}  // namespace cxxrun::launcher
