// The only file that sees CLI11. It cuts the command line into options and other words; what they mean is in the table.
#include "launcher/options/command_line.hpp"

#include <algorithm>
#include <utility>

#include <CLI/CLI.hpp>

#include "src/core/exit_codes.hpp"
#include "src/core/text.hpp"

namespace cxxrun::launcher {

namespace {

using Words = std::vector<std::string>;

/// Stands for the empty value of "--name=", for which CLI11 would take the next argument.
constexpr char const* kEmptyValue = "\x01";

struct CommandLine {
  std::vector<std::optional<std::string>> values;  ///< of each row
  Words rest;
};

bool is_flag(OptionRow const& row) {
  return *row.value_name == '\0';
}

OptionRow const* find_option(std::vector<OptionRow> const& rows, std::string_view word) {
  auto const found = std::find_if(rows.begin(), rows.end(), [word](OptionRow const& row) {
    return word == row.name || (!word.empty() && word == row.short_name);
  });
  return found == rows.end() ? nullptr : &*found;
}

std::string needs_value(OptionRow const& row) {
  return std::string(row.name) + " needs a value: " + row.name + " " + row.value_name;
}

/// With dashes in names. CLI11 wants the reverse order.
Words for_cli11(Words const& arguments) {
  Words reversed(arguments.rbegin(), arguments.rend());
  for (auto& argument : reversed) {
    if (argument.starts_with("--")) {
      auto const end = std::min(argument.find('='), argument.size());
      argument = replace_all(argument.substr(0, end), "_", "-") + argument.substr(end);
      argument += end + 1 == argument.size() ? kEmptyValue : "";
    }
  }
  return reversed;
}

std::vector<CLI::Option*> declare(CLI::App& app, std::vector<OptionRow> const& rows) {
  std::vector<CLI::Option*> declared;
  for (auto const& row : rows) {
    auto const names = row.name + std::string(*row.short_name == '\0' ? "" : ",") + row.short_name;
    declared.push_back(is_flag(row) ? app.add_flag(names) : app.add_option(names));
    declared.back()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  return declared;
}

Result<std::string> check_value(std::vector<OptionRow> const& rows, OptionRow const& row, std::string const& value) {
  if (is_flag(row)) {
    return value == "true" ? Result<std::string>("1") : fail(Errc::usage, std::string(row.name) + " takes no value");
  }
  if (value.starts_with("--") || find_option(rows, value) != nullptr) {
    return fail(Errc::usage, needs_value(row) + " ('" + printable(value, 60) + "' follows)");
  }
  return value == kEmptyValue ? "" : value;
}

Result<CommandLine> cut(Command const& command, std::vector<OptionRow> const& rows, Words const& arguments) {
  CLI::App app;
  app.set_help_flag();
  app.prefix_command();
  auto const declared = declare(app, rows);
  auto const reversed = for_cli11(arguments);
  try {
    app.parse(Words(reversed));
  } catch (CLI::ArgumentMismatch const&) {
    auto const* const last = find_option(rows, reversed.front());
    return fail(Errc::usage, last != nullptr ? needs_value(*last) : printable(arguments.back()) + " needs a value");
  } catch (CLI::Error const& error) {
    return fail(Errc::usage, printable(error.what()));
  }
  CommandLine line;
  auto& rest = line.rest;
  rest.assign(arguments.end() - static_cast<std::ptrdiff_t>(app.remaining().size()), arguments.end());
  if (!rest.empty() && rest.front() == "--") {
    rest.erase(rest.begin());
  } else if (!rest.empty() && rest.front() != "-" && rest.front().starts_with('-')) {
    return fail(Errc::usage, explain_unknown(command, rest.front()));
  }
  for (auto const* const option : declared) {
    auto& value = line.values.emplace_back();
    if (option->count() > 0) {
      auto checked = check_value(rows, rows[line.values.size() - 1], option->results().back());
      if (!checked) {
        return checked.error();
      }
      value = *std::move(checked);
    }
  }
  if (!rest.empty() && !command.runs_program) {
    return fail(Errc::usage, "unexpected argument " + printable(rest.front(), 60) + "; " + command.name +
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
      return applied ? applied : fail(Errc::usage, where + printable(*text) + ": " + applied.error().context);
    }
  }
  return {};
}

Result<void> refuse_variables(Command const& command, Environment const& environment) {
  for (auto const& [name, instead] : command.refused) {
    auto const value = find(environment, pet_variable(name));
    if (value && *value != "0" && *value != "null") {
      return fail(Errc::usage, pet_variable(name) + ": " + name + " is not supported: " + instead);
    }
  }
  return {};
}

}  // namespace

std::optional<EarlyExit> parse(Command const& command, Words const& arguments, Environment const& environment) {
  auto const rows = command.rows();
  auto const line = cut(command, rows, arguments);
  auto const asked_for = [&](OptionRow const& row) {
    return line && line->values[find_option(rows, row.name) - rows.data()];
  };
  if (asked_for(kHelp)) {
    return EarlyExit{0, help_text(command)};
  }
  if (asked_for(kVersion)) {
    return EarlyExit{0, std::string(command.name) + " " + CXXRUN_VERSION + "\n"};
  }
  Result<void> done = line ? refuse_variables(command, environment) : line.error();
  for (std::size_t i = 0; done && i < rows.size(); ++i) {
    done = apply(rows[i], line->values[i], environment);
  }
  if (done) {
    done = command.finish(line->rest);
  }
  return done ? std::nullopt
              : std::optional(EarlyExit{kExitUsage, std::string(command.name) + ": " + done.error().context + "\n"});
}

}  // namespace cxxrun::launcher
