#include "launcher/logs/line_prefixer.hpp"

#include <cstring>
#include <utility>

namespace cxxrun::launcher {

/// Capacity that is worth keeping between lines.
constexpr std::size_t kUsualLine = std::size_t{64} << 10;

LinePrefixer::LinePrefixer(std::string prefix, std::size_t longest_line, Return meaning)
    : prefix_(std::move(prefix)), longest_line_(longest_line), meaning_(meaning) {}

void LinePrefixer::feed(std::string_view chunk, std::string& out) {
  if (meaning_ == Return::redraws) {
    feed_terminal(chunk, out);
    return;
  }
  // memrchr, since the library's rfind goes byte by byte.
  auto const* newline = static_cast<char const*>(memrchr(chunk.data(), '\n', chunk.size()));
  if (newline == nullptr) {
    keep(chunk, out);
    return;
  }
  auto const last = static_cast<std::size_t>(newline - chunk.data());
  if (!kept_.empty()) {
    auto const first = chunk.find('\n') + 1;
    keep(chunk.substr(0, first - 1), out);
    out.append(prefix_).append(kept_).push_back('\n');
    kept_.clear();
    if (kept_.capacity() > kUsualLine) {
      kept_.shrink_to_fit();
    }
    append_lines(chunk.substr(first, last + 1 - first), out);
  } else {
    append_lines(chunk.substr(0, last + 1), out);
  }
  keep(chunk.substr(last + 1), out);
}

void LinePrefixer::feed_terminal(std::string_view chunk, std::string& out) {
  // A return at the very end waits for its successor: "\r\n" ends a line and redraws nothing.
  auto at = kept_.size() - (kept_.ends_with('\r') ? 1 : 0);
  std::string const text = std::exchange(kept_, {}).append(chunk);
  std::size_t begin = 0;
  for (;;) {
    at = text.find_first_of("\r\n", at);
    if (at == std::string::npos || (text[at] == '\r' && at + 1 == text.size())) {
      break;
    }
    bool const ends_line = text[at] == '\n' || text[at + 1] == '\n';
    auto const end = at + (text[at] == '\r' && ends_line ? 2 : 1);
    if (ends_line || at > begin) {
      out.append(prefix_).append(text, begin, end - begin);
    }
    begin = at = end;
  }
  keep(std::string_view(text).substr(begin), out);
}

void LinePrefixer::flush(std::string& out) {
  if (!kept_.empty()) {
    out.append(prefix_).append(kept_).push_back('\n');
    kept_.clear();
  }
}

void LinePrefixer::append_lines(std::string_view lines, std::string& out) const {
  if (prefix_.empty()) {
    out.append(lines);
    return;
  }
  // memchr and two appends per line: for short lines this beats a scatter list (docs/use/logs.md has the figures).
  while (!lines.empty()) {
    auto const* end = static_cast<char const*>(std::memchr(lines.data(), '\n', lines.size()));
    auto const length = static_cast<std::size_t>(end - lines.data()) + 1;
    out.append(prefix_).append(lines.data(), length);
    lines.remove_prefix(length);
  }
}

void LinePrefixer::keep(std::string_view partial, std::string& out) {
  while (kept_.size() + partial.size() > longest_line_) {
    auto const room = longest_line_ - kept_.size();
    out.append(prefix_).append(kept_).append(partial.substr(0, room)).push_back('\n');
    kept_.clear();
    partial.remove_prefix(room);
  }
  kept_.append(partial);
}

}  // namespace cxxrun::launcher
