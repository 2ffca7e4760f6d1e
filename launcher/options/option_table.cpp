#include "launcher/options/option_table.hpp"

#include <algorithm>

#include "src/core/text.hpp"

namespace cxxrun::launcher {

namespace {

std::string bare(std::string_view name) {
  auto const start = std::min(name.find_first_not_of('-'), name.size());
  return replace_all(lower(name.substr(start)), "_", "-");
}

std::string left_column(OptionRow const& row) {
  std::string left = *row.short_name == '\0' ? "  " : "  " + std::string(row.short_name) + ", ";
  left += row.name;
  return (*row.value_name == '\0' ? left : left + " " + row.value_name) + " ";
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

std::string explain_unknown(Command const& command, std::string_view argument) {
  std::string const given = printable(argument.substr(0, argument.find('=')), 60);
  for (auto const& refused : command.refused) {
    if (bare(given) == bare(refused.name)) {
      return given + " is not supported: " + refused.instead;
    }
  }
  std::vector<std::string> names;
  for (auto const& row : command.rows()) {
    names.push_back(bare(row.name));
  }
  auto const nearest = nearest_word(bare(given), names);
  return "unknown option " + given + "; " +
         (nearest ? "did you mean --" + *nearest + "?" : std::string(command.name) + " --help lists all");
}

std::string help_text(Command const& command) {
  constexpr std::size_t kMostLeft = 36;  // what is longer moves its help to the right
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
  auto const found = std::find(words.begin(), words.end(), value);
  if (found != words.end()) {
    return static_cast<std::size_t>(found - words.begin());
  }
  std::string const last = words.back();
  words.pop_back();
  return expected(join(words, ", ") + " or " + last + " is expected");
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
