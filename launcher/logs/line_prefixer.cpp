#include "launcher/logs/line_prefixer.hpp"

#include <cstring>
#include <utility>

namespace cxxrun::launcher {
namespace {

/// A buffer that has grown beyond this is shrunk after its line.
constexpr std::size_t kUsualLine = std::size_t{64} << 10;

/// The text that a terminal shows after all redraws; "" if that is blank.
std::string_view newest_state(std::string_view line) {
  auto const last = line.find_last_not_of('\r');
  line = last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
  line.remove_prefix(line.rfind('\r') + 1);  // npos + 1 is 0
  return line.find_first_not_of(' ') == std::string_view::npos ? std::string_view() : line;
}

/// Whether a carriage return redraws the line. Those at its end do not count: a newline may follow.
bool has_redraws(std::string_view line) {
  auto const last = line.find_last_not_of('\r');
  return last != std::string_view::npos && line.find('\r') < last;
}

/// The length of `text` without a character of UTF-8 that is cut off at its end.
std::size_t whole_characters(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(text.size(), 3); ++back) {
    auto const byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80U) {
      break;
    }
    if (byte >= 0xC0U) {
      std::size_t const length = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : 2;
      return text.size() - (back < length ? back : 0);
    }
  }
  return text.size();
}

}  // namespace

LinePrefixer::LinePrefixer(std::string prefix, std::size_t longest_line, CarriageReturn meaning, PartialLine partial)
    : prefix_(std::move(prefix)), longest_line_(longest_line), meaning_(meaning), partial_(partial) {}

bool LinePrefixer::feed(std::string_view chunk, std::string& out) {
  shown_ = shown_ && chunk.empty();
  if (meaning_ == CarriageReturn::redraws) {
    return feed_terminal(chunk, out);
  }
  // memrchr: the library's rfind goes byte by byte.
  auto const* newline = static_cast<char const*>(memrchr(chunk.data(), '\n', chunk.size()));
  if (newline == nullptr) {
    keep(chunk, out);
    return false;
  }
  auto const last = static_cast<std::size_t>(newline - chunk.data());
  if (begun_ || !kept_.empty()) {
    auto const first = chunk.find('\n') + 1;
    keep(chunk.substr(0, first - 1), out);
    end_line(out);
    append_lines(chunk.substr(first, last + 1 - first), out);
  } else {
    append_lines(chunk.substr(0, last + 1), out);
  }
  keep(chunk.substr(last + 1), out);
  return true;
}

bool LinePrefixer::feed_terminal(std::string_view chunk, std::string& out) {
  // A return at the very end waits for the next byte: "\r\n" ends a line and redraws nothing.
  auto at = kept_.size() - (kept_.ends_with('\r') ? 1 : 0);
  std::string const text = std::exchange(kept_, {}).append(chunk);
  std::size_t begin = 0;
  bool ended = false;
  for (;;) {
    at = text.find_first_of("\r\n", at);
    if (at == std::string::npos || (text[at] == '\r' && at + 1 == text.size())) {
      break;
    }
    bool const ends_line = text[at] == '\n' || text[at + 1] == '\n';
    auto const end = at + (text[at] == '\r' && ends_line ? 2 : 1);
    if (open_ || at > begin || (ends_line && !begun_)) {
      append_prefix(out);
      out.append(text, begin, end - begin);
    }
    begun_ = open_ = false;
    redrawn_ = !ends_line;
    ended = ended || ends_line;
    begin = at = end;
  }
  keep(std::string_view(text).substr(begin), out);
  return ended;
}

void LinePrefixer::show(std::string& out) {
  shown_ = true;
  bool const returns = redrawn_ || kept_.find('\r') != std::string::npos;
  if (returns) {
    show_redrawn(out);
  } else if (auto const shown = whole_characters(kept_); shown > 0) {
    append_prefix(out);
    out.append(kept_, 0, shown);
    begun_ = open_ = true;
    kept_.erase(0, shown);
    if (partial_ == PartialLine::ended) {
      break_line(out);
    }
  }
}

void LinePrefixer::show_redrawn(std::string& out) {
  auto const state = newest_state(kept_);
  if (meaning_ == CarriageReturn::redraws) {
    // `kept_` stays: the next redraw, or the newline, replaces this state on the screen.
    if (!state.empty() && !open_) {
      out.append(prefix_).append(state).push_back('\r');
      redrawn_ = true;
    }
    return;
  }
  redrawn_ = true;
  if (!state.empty()) {
    break_line(out);
    out.append(prefix_).append(state).push_back('\n');
    begun_ = true;
  }
  kept_.clear();
}

void LinePrefixer::flush(std::string& out) {
  if (begun_ || !kept_.empty()) {
    end_line(out);
  }
}

/// Ends the current line, of which `kept_` is the rest.
void LinePrefixer::end_line(std::string& out) {
  redrawn_ = redrawn_ || has_redraws(kept_);
  if (!begun_) {
    out.append(prefix_).append(kept_).push_back('\n');
  } else if (open_ && !redrawn_) {
    out.append(kept_).push_back('\n');
  } else {
    break_line(out);
    if (auto const state = newest_state(kept_); !state.empty()) {
      out.append(prefix_).append(state).push_back('\n');
    }
  }
  begun_ = open_ = redrawn_ = false;
  kept_.clear();
  if (kept_.capacity() > kUsualLine) {
    kept_.shrink_to_fit();
  }
}

void LinePrefixer::break_line(std::string& out) {
  if (std::exchange(open_, false)) {
    out.push_back('\n');
  }
}

void LinePrefixer::append_prefix(std::string& out) const {
  if (!open_) {
    out += prefix_;
  }
}

void LinePrefixer::append_lines(std::string_view lines, std::string& out) const {
  if (prefix_.empty()) {
    out.append(lines);
    return;
  }
  // memchr and two appends per line: for short lines this is faster than a scatter list (figures in docs/use/logs.md).
  while (!lines.empty()) {
    auto const* end = static_cast<char const*>(std::memchr(lines.data(), '\n', lines.size()));
    auto const length = static_cast<std::size_t>(end - lines.data()) + 1;
    out.append(prefix_).append(lines.data(), length);
    lines.remove_prefix(length);
  }
}

void LinePrefixer::keep(std::string_view partial, std::string& out) {
  if (open_ && kept_.empty()) {
    auto const goes_on = partial.substr(0, partial.find('\r'));
    out += goes_on;
    partial.remove_prefix(goes_on.size());
  }
  while (kept_.size() + partial.size() > longest_line_) {
    auto const room = longest_line_ - kept_.size();
    break_line(out);
    out.append(prefix_).append(kept_).append(partial.substr(0, room)).push_back('\n');
    kept_.clear();
    partial.remove_prefix(room);
  }
  kept_.append(partial);
}

LineFilter::LineFilter(std::string prefix, std::vector<std::string> words)
    : prefix_(std::move(prefix)), words_(std::move(words)) {}

void LineFilter::feed(std::string_view chunk, std::string& out) {
  cutter_.feed(chunk, lines_);
  for (std::string_view rest = lines_; !rest.empty();) {
    auto const line = rest.substr(0, rest.find('\n') + 1);
    if (std::ranges::any_of(words_,
                            [line](std::string const& word) { return line.find(word) != std::string_view::npos; })) {
      out.append(prefix_).append(line);
    }
    rest.remove_prefix(line.size());
  }
  lines_.clear();
}

}  // namespace cxxrun::launcher
