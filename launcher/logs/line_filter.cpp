#include "launcher/logs/line_filter.hpp"

#include <algorithm>
#include <utility>

namespace cxxrun::launcher {

LineFilter::LineFilter(std::string prefix, std::vector<std::string> words)
    : prefix_(std::move(prefix)), words_(std::move(words)) {}

void LineFilter::feed(std::string_view chunk, std::string& out) {
  cutter_.feed(chunk, lines_);
  for (std::string_view rest = lines_; !rest.empty();) {
    auto const line = rest.substr(0, rest.find('\n') + 1);
    if (std::any_of(words_.begin(), words_.end(),
                    [line](std::string const& word) { return line.find(word) != std::string_view::npos; })) {
      out.append(prefix_).append(line);
    }
    rest.remove_prefix(line.size());
  }
  lines_.clear();
}

}  // namespace cxxrun::launcher
