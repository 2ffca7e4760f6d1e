// The only file that uses CLI11. It splits the command line into options and other words; the table gives their
// meaning.
#include "launcher/options/option_table.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "src/base/core/exit_status.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

namespace {

using Words = std::vector<std::string>;

/// Stands for the empty value of "--name=", for which CLI11 would take the next argument.
constexpr char const* kEmptyValue = "\x01";

struct CommandLine {
  Environment values;  ///< by the names of rows
  Words rest;
};

bool is_flag(OptionRow const& row) {
  return *row.value_name == '\0';
}

/// Its value is optional and can only follow a "=".
bool is_optional(OptionRow const& row) {
  return *row.value_name == '[';
}

OptionRow const* find_option(std::vector<OptionRow> const& rows, std::string_view word) {
  auto const found = std::ranges::find_if(
      rows, [word](OptionRow const& row) { return word == row.name || (!word.empty() && word == row.short_name); });
  return found == rows.end() ? nullptr : &*found;
}

std::string needs_value(OptionRow const& row) {
  return std::string(row.name) + " needs a value: " + row.name + " " + row.value_name;
}

/// "a, b or c".
std::string any_of(Words words) {
  std::string const last = words.back();
  words.pop_back();
  return words.empty() ? last : join(words, ", ") + " or " + last;
}

std::string bare(std::string_view name) {
  auto const start = std::min(name.find_first_not_of('-'), name.size());
  return replace_all(lower(name.substr(start)), "_", "-");
}

std::string left_column(OptionRow const& row) {
  std::string left = *row.short_name == '\0' ? "  " : "  " + std::string(row.short_name) + ", ";
  left += row.name;
  return left + (is_flag(row) || is_optional(row) ? "" : " ") + row.value_name + " ";
}

/// The names that start with `start`: of our own options, or of those that torchrun has, too.
Words names_from(std::vector<OptionRow> const& rows, std::string_view start, bool ours) {
  Words names;
  for (auto const& row : rows) {
    if (row.ours == ours && start.size() > 2 && std::string_view(row.name).starts_with(start)) {
      names.emplace_back(row.name);
    }
  }
  return names;
}

/// The option that argparse would take it for: a long or short name, or an unambiguous start of one of torchrun's. With
/// dashes instead of underscores.
std::string full_name(std::vector<OptionRow> const& rows, std::string const& given) {
  auto const name = replace_all(given, "_", "-");
  if (auto const* const row = find_option(rows, name)) {
    return row->name;
  }
  auto const meant = names_from(rows, name, false);
  return meant.size() == 1 ? meant.front() : name;
}

/// What the user may have meant by an unknown option.
std::string suggestion(Command const& command, std::string const& given) {
  auto const rows = command.rows();
  auto const start = "--" + bare(given);
  if (auto const several = names_from(rows, start, false); given.starts_with("--") && !several.empty()) {
    return "it may be " + any_of(several);
  }
  auto const names = list_of(rows, [](OptionRow const& row) { return bare(row.name); });
  auto const longer = names_from(rows, start, true);
  auto const nearest = longer.empty() ? nearest_word(bare(given), names) : bare(longer.front());
  return nearest ? "did you mean --" + *nearest + "?" : std::string(command.name) + " --help lists all";
}

/// Whether `given` is that option. A long one may have a single dash, a short one may have its value attached ("-n4").
bool is_foreign(std::string_view given, std::string const& name) {
  return name.starts_with("--") ? given.size() > 2 && bare(given) == bare(name)
                                : given.substr(0, given.find_last_not_of("0123456789") + 1) == name;
}

/// The error for an unknown argument: what to type instead of another launcher's option, or the nearest spelling.
std::string explain_unknown(Command const& command, std::string_view argument) {
  std::string const given = printable(argument.substr(0, argument.find('=')), 60);
  for (auto const& [names, launcher, instead] : command.foreign) {
    auto const all = split(names, ' ');
    if (std::ranges::any_of(all, [&given](auto const& name) { return is_foreign(given, name); })) {
      return given + " is an option of " + launcher + "; here: " + instead;
    }
  }
  return "unknown option " + given + "; " + suggestion(command, given);
}

std::string help_text(Command const& command) {
  constexpr std::size_t kMostLeft = 36;  // a longer left column moves only its own help to the right
  std::size_t width = 0;
  for (auto const& row : command.rows()) {
    width = std::max(width, std::min(left_column(row).size() + 1, kMostLeft));
  }
  std::string text = command.above;
  for (auto const& [heading, rows] : command.groups) {
    text += *heading == '\0' ? "\n" : "\n" + std::string(heading) + "\n";
    for (auto const& row : rows) {
      std::string left = left_column(row);
      left.resize(std::max(left.size(), width), ' ');
      text += left + row.help + "\n";
    }
  }
  return text + "\n" + command.below;
}

/// The arguments with full option names, in reverse order as CLI11 wants them.
Words for_cli11(std::vector<OptionRow> const& rows, Words const& arguments) {
  Words reversed(arguments.rbegin(), arguments.rend());
  for (auto& argument : reversed) {
    auto const end = std::min(argument.find('='), argument.size());
    auto const name = argument.substr(0, end);
    auto const value = argument.substr(end);
    if (name.starts_with("--") || (end < argument.size() && find_option(rows, name) != nullptr)) {
      argument = full_name(rows, name) + value + (value == "=" ? kEmptyValue : "");
    }
  }
  return reversed;
}

Result<std::string> check_value(std::vector<OptionRow> const& rows, OptionRow const& row, std::string const& value) {
  if (is_flag(row)) {
    return value == "true" ? Result<std::string>("1") : expected(std::string(row.name) + " takes no value");
  }
  if (is_optional(row)) {
    return value == "true" ? "1" : value == kEmptyValue ? "" : value;
  }
  if (value.starts_with("--") || find_option(rows, value) != nullptr) {
    return expected(needs_value(row) + " ('" + printable(value, 60) + "' follows)");
  }
  return value == kEmptyValue ? "" : value;
}

Result<CommandLine> cut(Command const& command, std::vector<OptionRow> const& rows, Words const& arguments) {
  CLI::App app;
  app.set_help_flag();
  app.prefix_command();
  for (auto const& row : rows) {
    auto const names = row.name + std::string(*row.short_name == '\0' ? "" : ",") + row.short_name;
    (is_flag(row) || is_optional(row) ? app.add_flag(names) : app.add_option(names))
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  auto const reversed = for_cli11(rows, arguments);
  try {
    app.parse(Words(reversed));
  } catch (CLI::ArgumentMismatch const&) {
    auto const* const last = find_option(rows, reversed.front());
    return expected(last != nullptr ? needs_value(*last) : printable(arguments.back()) + " needs a value");
  } catch (CLI::Error const& error) {
    return expected(printable(error.what()));
  }
  CommandLine line;
  auto& rest = line.rest;
  rest.assign(arguments.end() - static_cast<std::ptrdiff_t>(app.remaining().size()), arguments.end());
  if (!rest.empty() && rest.front() == "--") {
    rest.erase(rest.begin());
  } else if (!rest.empty() && rest.front() != "-" && rest.front().starts_with('-')) {
    return expected(explain_unknown(command, rest.front()));
  }
  for (auto const& row : rows) {
    if (auto const* const option = app.get_option(row.name); option->count() > 0) {
      auto checked = check_value(rows, row, option->results().back());
      if (!checked) {
        return checked.error();
      }
      line.values.emplace(row.name, *std::move(checked));
    }
  }
  if (!rest.empty() && !command.runs_program) {
    return expected("unexpected argument " + printable(rest.front(), 60) + "; " + command.name +
                    " --help lists all options");
  }
  return line;
}

std::optional<std::string> find(Environment const& environment, std::string const& name) {
  auto value = find_value(environment, name);
  return value && value->empty() ? std::nullopt : value;
}

Result<void> apply(OptionRow const& row, std::optional<std::string> const& value, Environment const& environment) {
  std::string const variable = pet_variable(row.name);
  for (auto const& [where, text] :
       {std::pair(row.name + std::string(" "), value), std::pair(variable + "=", find(environment, variable)),
        std::pair(row.also_from + std::string("="), find(environment, row.also_from))}) {
    if (text && row.apply) {
      auto const applied = row.apply(*text, row);
      return applied ? applied : expected(where + printable(*text) + ": " + applied.error().context);
    }
  }
  return {};
}

}  // namespace

std::vector<OptionRow> Command::rows() const {
  std::vector<OptionRow> all;
  for (auto const& group : groups) {
    all.insert(all.end(), group.rows.begin(), group.rows.end());
  }
  return all;
}

std::string pet_variable(std::string_view name) {
  std::string variable = "PET_" + replace_all(name.substr(2), "-", "_");
  for (char& c : variable) {
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return variable;
}

std::optional<EarlyExit> parse(Command const& command, Words const& arguments, Environment const& environment) {
  auto const rows = command.rows();
  auto const line = cut(command, rows, arguments);
  if (line && line->values.contains(help_row.name)) {
    return EarlyExit{0, help_text(command)};
  }
  if (line && line->values.contains(version_row.name)) {
    return EarlyExit{0, std::string(command.name) + " " + CXXRUN_VERSION + "\n"};
  }
  Result<void> done = line ? Result<void>() : line.error();
  for (std::size_t i = 0; done && i < rows.size(); ++i) {
    done = apply(rows[i], find_value(line->values, rows[i].name), environment);
  }
  if (done) {
    done = command.finish(line->rest);
  }
  return done ? std::nullopt
              : std::optional(EarlyExit{kExitUsage, std::string(command.name) + ": " + done.error().context + "\n"});
}

Error expected(std::string what) {
  return fail(Errc::usage, std::move(what));
}

Result<std::string> parse_text(std::string_view text) {
  return text.empty() ? Result<std::string>(expected("a value is expected")) : std::string(text);
}

Result<bool> parse_flag(std::string_view text) {
  auto const number = parse_unsigned(text, 0, 1'000'000);
  return number ? Result<bool>(*number != 0) : expected("0 or 1 is expected");
}

Result<std::size_t> find_word(std::string const& value, OptionRow const& row) {
  auto words = split(row.value_name, '|');
  auto const found = std::ranges::find(words, value);
  if (found != words.end()) {
    return static_cast<std::size_t>(found - words.begin());
  }
  return expected(any_of(std::move(words)) + " is expected");
}

Result<void> check_word(std::string const& value, OptionRow const& row) {
  auto const place = find_word(value, row);
  return place ? Result<void>() : place.error();
}

Apply set_word(std::string& target) {
  return [&target](std::string const& value, OptionRow const& row) {
    target = value;
    return check_word(value, row);
  };
}

}  // namespace cxxrun::launcher
