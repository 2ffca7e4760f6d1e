#include "launcher/report/open_line.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "launcher/report/line_kinds.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

void OpenLine::extend(std::string_view piece) {
  if (piece.empty()) {
    return;
  }
  if (!line_.empty() && line_.back() == '\r') {
    line_.clear();
    cut_ = false;
  }
  if (void const* const back = memrchr(piece.data(), '\r', piece.size() - 1)) {
    line_.clear();
    cut_ = false;
    piece.remove_prefix(static_cast<std::size_t>(static_cast<char const*>(back) - piece.data()) + 1);
  }
  constexpr std::size_t kHalf = kLineBytes / 2;
  auto const head = std::min(piece.size(), line_.size() < kLineBytes ? kLineBytes - line_.size() : 0);
  line_.append(piece.substr(0, head));
  piece.remove_prefix(head);
  if (!piece.empty()) {
    cut_ = true;
    auto const last = piece.substr(piece.size() - std::min(piece.size(), kHalf));
    line_.erase(kHalf, last.size());
    line_.append(last);
  }
}

std::string OpenLine::end() {
  std::string line = std::exchange(line_, {});
  if (!line.empty() && line.back() == '\r') {
    line.pop_back();
  }
  if (std::exchange(cut_, false)) {
    line.insert(kLineBytes / 2, "…");
  }
  return line;
}

std::string_view plain_line(std::string_view whole, std::string& room) {
  auto text = whole;
  if (whole.size() > kLineBytes || whole.find('\r') != std::string_view::npos) {
    OpenLine line;
    line.extend(whole);
    room = line.end();
    text = room;
  }
  if (text.find("\033[") != std::string_view::npos) {
    room = printable_lines(text);
    text = room;
  }
  return without_rank(text);
}

}  // namespace cxxrun::launcher
