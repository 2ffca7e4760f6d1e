// The only file that sees CLI11. It cuts the command line into options and program; what they mean is in the table.
#include "launcher/options/parse_options.hpp"

#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "launcher/options/option_table.hpp"
#include "launcher/options/option_values.hpp"
#include "src/core/exit_codes.hpp"
#include "src/core/text.hpp"

namespace cxxrun::launcher {

namespace {

/// Stands for the empty value of "--name=", for which CLI11 would take the next argument.
constexpr char const* kEmptyValue = "\x01";

struct CommandLine {
  std::vector<std::string> values;  ///< by row; meaningful where given
  std::vector<bool> given;
  std::vector<std::string> program;  ///< program and arguments
};

EarlyExit refuse(std::string const& line) {
  return {kExitUsage, "cxxrun: " + line + "\n"};
}

bool is_option_like(std::string_view value) {
  auto const rows = option_rows();
  return value.starts_with("--") || std::any_of(rows.begin(), rows.end(), [value](OptionRow const& row) {
           return *row.short_name != '\0' && value == row.short_name;
         });
}

std::string needs_value(OptionRow const& row) {
  return std::string(row.name) + " needs a value: " + row.name + " " + row.value_name;
}

/// CLI11 wants the arguments in reverse order.
std::vector<std::string> for_cli11(std::vector<std::string> const& arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  for (auto& argument : reversed) {
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) {
      argument += kEmptyValue;
    }
  }
  return reversed;
}

std::vector<CLI::Option*> declare(CLI::App& app, std::vector<std::string>& values) {
  std::vector<CLI::Option*> declared;
  for (std::size_t i = 0; i < values.size(); ++i) {
    OptionRow const& row = option_rows()[i];
    std::string names = std::string(row.name);
    if (underscored(row.name) != row.name) {
      names += "," + underscored(row.name);
    }
    if (*row.short_name != '\0') {
      names += std::string(",") + row.short_name;
    }
    auto* const option = *row.value_name == '\0' ? app.add_flag(names) : app.add_option(names, values[i]);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    declared.push_back(option);
  }
  return declared;
}

Result<void> check_given(CommandLine& line) {
  for (std::size_t i = 0; i < line.values.size(); ++i) {
    OptionRow const& row = option_rows()[i];
    std::string& value = line.values[i];
    if (!line.given[i]) {
      continue;
    }
    if (*row.value_name == '\0') {
      if (value != "true") {
        return fail(Errc::usage, std::string(row.name) + " takes no value");
      }
      value = "1";
    } else if (value == kEmptyValue) {
      value.clear();
    } else if (is_option_like(value)) {
      return fail(Errc::usage, needs_value(row) + " ('" + printable(value, 60) + "' follows)");
    }
  }
  return {};
}

Result<CommandLine> cut(std::vector<std::string> const& arguments) {
  CommandLine line;
  line.values.resize(option_rows().size());
  CLI::App app;
  app.set_help_flag();
  app.prefix_command();
  auto const declared = declare(app, line.values);
  try {
    app.parse(for_cli11(arguments));
  } catch (CLI::ArgumentMismatch const&) {
    std::string const last = arguments.empty() ? "" : arguments.back();
    for (auto const& row : option_rows()) {
      if (last == row.name || last == underscored(row.name) || (!last.empty() && last == row.short_name)) {
        return fail(Errc::usage, needs_value(row));
      }
    }
    return fail(Errc::usage, printable(last) + " needs a value");
  } catch (CLI::Error const& error) {
    return fail(Errc::usage, printable(error.what()));
  }
  for (std::size_t i = 0; i < declared.size(); ++i) {
    line.given.push_back(declared[i]->count() > 0);
    if (line.given[i] && *option_rows()[i].value_name == '\0') {
      line.values[i] = declared[i]->results().back();
    }
  }
  auto const rest = app.remaining();
  if (!rest.empty() && rest.front() != "--" && rest.front() != "-" && rest.front().starts_with('-')) {
    return fail(Errc::usage, explain_unknown(rest.front()));
  }
  auto const skip = static_cast<std::ptrdiff_t>(!rest.empty() && rest.front() == "--" ? rest.size() - 1 : rest.size());
  line.program.assign(arguments.end() - skip, arguments.end());
  if (auto checked = check_given(line); !checked) {
    return checked.error();
  }
  return line;
}

std::string const* find(Environment const& environment, std::string const& name) {
  auto const found = environment.find(name);
  return found == environment.end() || found->second.empty() ? nullptr : &found->second;
}

Result<void> apply_row(OptionRow const& row, std::string const& value, std::string const& where, Options& options) {
  if (auto const applied = row.apply(options, value); !applied) {
    return fail(applied.error().code, where + ": " + applied.error().context);
  }
  return {};
}

Result<void> apply_all(CommandLine const& line, Environment const& environment, Options& options) {
  for (std::size_t i = 0; i < line.values.size(); ++i) {
    OptionRow const& row = option_rows()[i];
    Result<void> applied;
    if (row.apply == nullptr) {
      continue;
    }
    std::string const variable = pet_variable(row.name);
    if (line.given[i]) {
      applied = apply_row(row, line.values[i], std::string(row.name) + " " + printable(line.values[i]), options);
    } else if (auto const* const value = find(environment, variable)) {
      applied = apply_row(row, *value, variable + "=" + printable(*value), options);
    } else if (auto const* const also = find(environment, row.also_from)) {
      applied = apply_row(row, *also, std::string(row.also_from) + "=" + printable(*also), options);
    }
    if (!applied) {
      return applied;
    }
  }
  return {};
}

Result<void> refuse_variables(Environment const& environment) {
  for (auto const& refused : refused_options()) {
    auto const* const value = find(environment, pet_variable(refused.name));
    if (value != nullptr && *value != "0" && *value != "null") {
      return fail(Errc::usage,
                  pet_variable(refused.name) + ": " + refused.name + " is not supported: " + refused.instead);
    }
  }
  return {};
}

Result<void> check(Options& options) {
  if (auto applied = apply_rdzv_conf(options); !applied) {
    return fail(Errc::usage, "--rdzv-conf: " + applied.error().context);
  }
  if (options.module && options.no_python) {
    return fail(Errc::usage, "-m and --no-python exclude each other: a module needs Python; drop one of them");
  }
  if (options.numa_binding != CpuMode::none && options.cpu_bind) {
    return fail(Errc::usage, "--numa-binding and --cpu-bind exclude each other: drop one of them");
  }
  if (options.quorum == Quorum::none && !options.fence_dir.empty()) {
    return fail(Errc::usage,
                "--fence and --quorum none exclude each other: a fence breaks ties in a vote; drop one of them");
  }
  if (!options.fence_dir.empty() && options.heartbeat_timeout == Millis{0}) {
    return fail(Errc::usage,
                "--fence needs --heartbeat-timeout above 0: without heartbeats nobody votes; drop one of them");
  }
  if (options.quorum == Quorum::none) {
    options.notes.emplace_back(
        "--quorum none: after a cut of the network every side goes on by itself: two generations of one number may "
        "run at once, restarts are counted on each side, and whichever saves last overwrites the other's checkpoint");
  }
  if (options.program.empty()) {
    return fail(Errc::usage,
                "no program given\nusage: cxxrun [options] program [arguments]   (cxxrun --help lists the options)");
  }
  return {};
}

bool asked_for(CommandLine const& line, std::string_view name) {
  for (std::size_t i = 0; i < line.given.size(); ++i) {
    if (line.given[i] && name == option_rows()[i].name) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::variant<Options, EarlyExit> parse_options(std::vector<std::string> const& arguments,
                                               Environment const& environment) {
  auto const line = cut(arguments);
  if (!line) {
    return refuse(line.error().context);
  }
  if (asked_for(*line, "--help")) {
    return EarlyExit{0, help_text()};
  }
  if (asked_for(*line, "--version")) {
    return EarlyExit{0, std::string("cxxrun ") + CXXRUN_VERSION + "\n"};
  }
  Options options;
  auto const* const own_store = find(environment, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
  options.agent_store = own_store == nullptr || *own_store != "1";
  if (!line->program.empty()) {
    options.program = line->program.front();
    options.args.assign(line->program.begin() + 1, line->program.end());
  }
  for (auto const& step : {apply_all(*line, environment, options), refuse_variables(environment), check(options)}) {
    if (!step) {
      return refuse(step.error().context);
    }
  }
  return options;
}

}  // namespace cxxrun::launcher
