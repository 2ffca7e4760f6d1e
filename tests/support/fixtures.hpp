// Files under tests/data, read whole.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

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

/// The variables of one section, for example "task 1 on node2", of a recorded environment.
inline std::map<std::string, std::string> recorded_environment(std::string const& file, std::string const& section) {
  std::istringstream lines(read_data("slurm_env/" + file));
  std::map<std::string, std::string> variables;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) {
      inside = line == "[" + section + "]" && variables.empty();
    } else if (inside && line.find('=') != std::string::npos) {
      variables[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    }
  }
  if (variables.empty()) {
    throw std::runtime_error("no section [" + section + "] in " + file);
  }
  return variables;
}

}  // namespace cxxrun::testing
