// LineFilter: bytes of one stream, in any chunks → the whole lines that have one of some words in them, each with the
// prefix. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/logs/line_prefixer.hpp"

namespace cxxrun::launcher {

class LineFilter {
 public:
  LineFilter(std::string prefix, std::vector<std::string> words);

  /// Appends to `out` every such line that `chunk` completes. At the end of the stream a newline completes the last.
  void feed(std::string_view chunk, std::string& out);

 private:
  std::string prefix_;
  std::vector<std::string> words_;
  LinePrefixer cutter_{""};
  std::string lines_;  ///< whole ones that nobody has looked at; keeps its room
};

}  // namespace cxxrun::launcher
