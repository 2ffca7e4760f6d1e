#include "launcher/line_prefixer.hpp"

#include <cstring>
#include <utility>

namespace cxxrun::launcher {
namespace {

/// Capacity that is worth keeping between lines.
constexpr std::size_t kUsualLine = std::size_t{64} << 10;

}  // namespace

LinePrefixer::LinePrefixer(std::string prefix, std::size_t longest_line)
    : prefix_(std::move(prefix)), longest_line_(longest_line) {}

void LinePrefixer::feed(std::string_view chunk, std::string& out) {
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
  // memchr and two appends per line: for short lines this beats a scatter list (docs/logs.md has the figures).
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
