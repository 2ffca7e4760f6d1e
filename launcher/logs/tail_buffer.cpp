#include "launcher/logs/tail_buffer.hpp"

namespace cxxrun::launcher {

std::string_view last_lines(std::string_view text, bool whole) {
  if (text.size() > kTailBytes) {
    auto const cut = text.size() - kTailBytes;
    whole = text[cut - 1] == '\n';
    text.remove_prefix(cut);
  }
  if (!whole) {
    auto const first_end = text.find('\n');
    if (first_end != std::string_view::npos && first_end + 1 < text.size()) {
      text.remove_prefix(first_end + 1);
    }
  }
  // The newline of the last line ends it; it does not begin another one.
  auto at = text.size();
  if (at > 0 && text.back() == '\n') {
    --at;
  }
  for (std::size_t line = 0; line < kTailLines; ++line) {
    auto const newline = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
    if (newline == std::string_view::npos) {
      return text;
    }
    at = newline;
  }
  return text.substr(at + 1);
}

void TailBuffer::feed(std::string_view chunk) {
  if (chunk.size() > kTailBytes) {
    // One byte more than can be shown: it tells whether the rest begins a line.
    bytes_.assign(chunk.substr(chunk.size() - kTailBytes - 1));
    whole_ = false;
    return;
  }
  if (bytes_.size() + chunk.size() > 2 * kTailBytes) {
    bytes_.erase(0, bytes_.size() - kTailBytes - 1);
    whole_ = false;
  }
  bytes_.append(chunk);
}

std::string TailBuffer::text() const {
  return std::string(last_lines(bytes_, whole_));
}

}  // namespace cxxrun::launcher
