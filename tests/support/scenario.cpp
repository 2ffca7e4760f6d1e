#include "tests/support/scenario.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace cxxrun::test {
namespace {

struct Block {
  std::string lead;  // comments and blank lines before the command
  std::string command;
  std::vector<std::string> expected;
};

std::vector<Block> read(std::string const& path) {
  std::ifstream in(path);
  std::vector<Block> blocks;
  std::string lead;
  bool answering = false;
  for (std::string line; std::getline(in, line);) {
    if (answering && !line.empty()) {
      blocks.back().expected.push_back(line);
    } else if (line == "----") {
      answering = true;
    } else if (line.empty() || line.starts_with('#')) {
      lead += answering ? "" : line + "\n";
      answering = false;
    } else {
      blocks.push_back(Block{std::exchange(lead, {}), line, {}});
    }
  }
  return blocks;
}

std::string join(std::vector<std::string> const& lines) {
  std::string text;
  for (auto const& line : lines) {
    text += line + "\n";
  }
  return text;
}

std::vector<std::string> words(std::string const& line) {
  std::istringstream in(line);
  std::vector<std::string> result;
  for (std::string word; in >> word;) {
    result.push_back(word);
  }
  return result;
}

}  // namespace

std::string play(std::string const& path,
                 std::function<std::vector<std::string>(std::vector<std::string> const&)> const& execute) {
  std::string difference;
  std::string rewritten;
  for (auto const& block : read(path)) {
    auto const seen = execute(words(block.command));
    if (seen != block.expected && difference.empty()) {
      difference = path + ": " + block.command + "\n--- expected\n" + join(block.expected) + "--- seen\n" + join(seen);
    }
    rewritten += block.lead + block.command + "\n----\n" + join(seen) + "\n";
  }
  if (std::getenv("CXXRUN_REWRITE") != nullptr) {
    std::ofstream(path) << rewritten;
    return {};
  }
  return difference;
}

std::vector<std::string> transcripts(std::string const& folder) {
  std::vector<std::string> paths;
  for (auto const& entry :
       std::filesystem::directory_iterator(std::string(CXXRUN_SOURCE_DIR) + "/tests/scenario/" + folder)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace cxxrun::test
