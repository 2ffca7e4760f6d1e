#include "tests/support/scenario.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

namespace cxxrun::test {
namespace {

constexpr std::string_view kIndent = "  ";
constexpr std::string_view kBegin = "begin ";
std::string const kScenarios = std::string(CXXRUN_SOURCE_DIR) + "/tests/scenario/";

struct Step {
  std::string lead;  // comments and other lines before the command
  std::string command;
  Lines expected;
  bool of_opening = false;
};

std::vector<Step> read(std::string const& path) {
  std::ifstream in(path);
  std::vector<Step> steps;
  std::string lead;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(kIndent) && !steps.empty()) {
      steps.back().expected.push_back(line.substr(kIndent.size()));
    } else if (line.starts_with(kBegin)) {
      for (auto const& step : read(kScenarios + "openings/" + line.substr(kBegin.size()) + ".txt")) {
        steps.push_back(Step{{}, step.command, step.expected, true});
      }
      lead += line + "\n";
    } else if (line.empty() || line.starts_with('#')) {
      lead += line + "\n";
    } else {
      steps.push_back(Step{std::exchange(lead, {}), line, {}});
    }
  }
  return steps;
}

std::string join(Lines const& lines) {
  std::string text;
  for (auto const& line : lines) {
    text.append(kIndent).append(line).append("\n");
  }
  return text;
}

Words words(std::string const& line) {
  std::istringstream in(line);
  Words result;
  for (std::string word; in >> word;) {
    result.push_back(word);
  }
  return result;
}

}  // namespace

std::string value(Words const& words, std::string const& key, std::string const& otherwise) {
  for (auto const& word : words) {
    if (word.starts_with(key + "=")) {
      return word.substr(key.size() + 1);
    }
  }
  return otherwise;
}

std::string play(std::string const& path, std::function<Lines(Words const&)> const& execute) {
  std::string difference;
  std::string rewritten;
  bool const rewrites = std::getenv("CXXRUN_REWRITE") != nullptr;
  for (auto const& step : read(path)) {
    auto const seen = execute(words(step.command));
    if (seen != step.expected && difference.empty() && (step.of_opening || !rewrites)) {
      difference = path + ": " + step.command + "\n--- expected\n" + join(step.expected) + "--- seen\n" + join(seen);
    }
    rewritten += step.of_opening ? "" : step.lead + step.command + "\n" + join(seen);
  }
  if (rewrites) {
    std::ofstream(path) << rewritten;
  }
  return difference;
}

std::vector<std::string> transcripts(std::string const& folder) {
  std::vector<std::string> paths;
  for (auto const& entry : std::filesystem::directory_iterator(kScenarios + folder)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace cxxrun::test
