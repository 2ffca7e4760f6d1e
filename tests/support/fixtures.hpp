// Files under tests/data, read whole, and tables of docs.
#pragma once

#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"

namespace cxxrun::testing {

inline std::string read_file(std::string const& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::string read_data(std::string const& name) {
  return read_file(std::string(CXXRUN_SOURCE_DIR) + "/tests/data/" + name);
}

/// The variables of one section, for example "task 1 on node2", of a recorded environment, and those above the first
/// section, which all of them have.
inline std::map<std::string, std::string> recorded_environment(std::string const& file, std::string const& section) {
  std::istringstream lines(read_data("slurm_env/" + file));
  std::map<std::string, std::string> variables;
  bool inside = true;
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) {
      inside = !found && line == "[" + section + "]";
      found = found || inside;
    } else if (inside && !line.starts_with('#') && line.find('=') != std::string::npos) {
      variables[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    }
  }
  if (!found) {
    throw std::runtime_error("no section [" + section + "] in " + file);
  }
  return variables;
}

/// The names of its sections.
inline std::vector<std::string> recorded_sections(std::string const& file) {
  std::istringstream lines(read_data("slurm_env/" + file));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) {
      names.push_back(line.substr(1, line.size() - 2));
    }
  }
  return names;
}

/// The first cells of the rows of the table in the page NAME of docs/ whose own first cell is `head`.
inline std::vector<std::string> documented_rows(std::string const& name, std::string const& head) {
  std::vector<std::string> rows;
  std::istringstream lines(read_file(std::string(CXXRUN_SOURCE_DIR) + "/docs/" + name));
  bool within = false;
  for (std::string line; std::getline(lines, line);) {
    bool const begins = line.starts_with("| " + head + " |");
    within = begins || (within && line.starts_with("|"));
    if (within && !begins && !line.starts_with("|---")) {
      rows.push_back(line.substr(2, line.find(" |", 2) - 2));
    }
  }
  return rows;
}

/// The cells of the table in the page NAME of docs/ whose first line begins with `head`: that line first.
inline std::vector<std::vector<std::string>> documented_table(std::string const& name, std::string const& head) {
  std::vector<std::vector<std::string>> rows;
  auto const page = read_file(std::string(CXXRUN_SOURCE_DIR) + "/docs/" + name);
  bool within = false;
  for (auto const& line : split(page, '\n')) {
    within = line.starts_with(head) || (within && line.starts_with("|"));
    if (within && !line.starts_with("|---")) {
      rows.emplace_back();
      for (auto const& cell : split(std::string_view(line).substr(1, line.size() - 2), '|')) {
        rows.back().emplace_back(trim(cell));
      }
    }
  }
  return rows;
}

/// Each of the rows has a check, which is carried out, and no check is without a row.
inline void check_rows(std::vector<std::string> const& documented,
                       std::map<std::string, std::function<void()>> const& checks) {
  for (auto const& row : documented) {
    CAPTURE(row);
    REQUIRE(checks.contains(row));
    checks.at(row)();
  }
  CHECK(documented.size() == checks.size());
}

}  // namespace cxxrun::testing
