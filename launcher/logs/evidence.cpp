#include "launcher/logs/evidence.hpp"

#include <algorithm>
#include <utility>

#include "src/core/hash.hpp"
#include "src/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using rendezvous::Role;

constexpr std::size_t kAlike = 4;         // lines that differ in numbers alone and are shown as they are
constexpr std::size_t kEntryBytes = 192;  // what an entry takes besides its text
constexpr std::size_t kNearFrames = 3;    // of the thread that died
constexpr std::size_t kLastFrames = 3;    // of a traceback, besides the first
constexpr std::size_t kFrameBytes = 1024;

std::string counted(std::size_t count, std::string const& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::size_t cost(std::string const& line) {
  return sizeof line + line.capacity();
}

/// "(total: 42)" at the end of a list of modules; else how many there are.
std::size_t modules_in(std::string_view line) {
  auto const total = line.rfind("(total: ");
  auto const number = total == std::string_view::npos ? "" : line.substr(total + 8, line.size() - total - 9);
  return number_in<std::size_t>(number).value_or(static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) +
                                                 1);
}

bool has(std::string_view line, std::string_view words) {
  return line.find(words) != std::string_view::npos;
}

}  // namespace

void Evidence::feed(std::string_view chunk) {
  for (auto end = chunk.find('\n'); end != std::string_view::npos; end = chunk.find('\n')) {
    auto const piece = chunk.substr(0, end);
    if (line_.empty() && piece.size() <= kLineBytes && piece.find('\r') == std::string_view::npos) {
      take(piece);  // nearly every line: it need not be put together
    } else {
      extend(piece);
      end_line();
    }
    chunk.remove_prefix(end + 1);
  }
  extend(chunk);
}

/// A carriage return begins the line anew, as on a terminal: of a progress bar the last state is kept. One that ends
/// the line means nothing.
void Evidence::extend(std::string_view piece) {
  if (!piece.empty() && !line_.empty() && line_.back() == '\r') {
    line_.clear();
    cut_ = false;
  }
  if (auto const back = piece.substr(0, piece.size() - (piece.empty() ? 0 : 1)).rfind('\r');
      back != std::string_view::npos) {
    line_.clear();
    cut_ = false;
    piece.remove_prefix(back + 1);
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

void Evidence::end_line() {
  std::string line = std::exchange(line_, {});
  if (!line.empty() && line.back() == '\r') {
    line.pop_back();
  }
  if (std::exchange(cut_, false)) {
    line.insert(kLineBytes / 2, "…");
  }
  take(line);
}

void Evidence::take(std::string_view line) {
  std::string const plain = has(line, "\033[") ? printable_lines(line) : "";
  auto const text = without_rank(plain.empty() ? line : plain);
  consider(text);
  auto const shape = shape_of(text);
  bool const current = text.starts_with("Current thread 0x");
  in_current_ = current || (in_current_ && shape == Shape::native_frame);
  near_ = current ? 0 : near_;
  bool const near = in_current_ && shape == Shape::native_frame && near_++ < kNearFrames;
  switch (near ? Shape::line : shape) {
    case Shape::native_frame: fold(shape).count += 1; break;
    case Shape::thread: fold(Shape::native_frame).threads += 1; break;
    case Shape::modules: fold(shape).count += modules_in(text); break;
    case Shape::python_frame: fold(shape, true); [[fallthrough]];
    case Shape::line:
      if (!text.empty() || entries_.empty() || entries_.back().shape != Shape::native_frame) {  // between two threads
        keep(text);
      }
      break;
  }
  while (bytes_ > kKeptBytes) {
    bytes_ -= kEntryBytes;
    for (auto const& old : entries_.front().lines) {
      bytes_ -= cost(old);
    }
    entries_.pop_front();
  }
}

/// Whether it says why, and better than what did so far.
void Evidence::consider(std::string_view line) {
  if (details_ || telling_.strength == Strength::explains) {
    follow(line);
  }
  bool const ends_traceback = in_traceback_ && !line.empty() && line.front() != ' ' && line.front() != '\t';
  if (has(line, "Traceback (most recent call last)")) {
    in_traceback_ = true;
    return;
  }
  if (line.starts_with("Exception ignored in")) {
    ignored_ = true;
    return;
  }
  if (line.starts_with("During handling of the above exception") || line.starts_with("The above exception was the")) {
    chained_ = true;
    return;
  }
  auto found = telling(line);
  if (ends_traceback) {
    in_traceback_ = false;
    found.strength = std::max(found.strength, Strength::explains);
  }
  if (found.strength >= Strength::explains && std::exchange(ignored_, false)) {
    found.strength = Strength::hints;
  }
  // What is raised while an exception is handled is its consequence, when one of the two is a victim's.
  bool const follows = found.strength == Strength::explains && std::exchange(chained_, false) &&
                       telling_.strength == Strength::explains && found.role != telling_.role;
  bool const better = found.strength > telling_.strength ||
                      (found.strength == telling_.strength && found.strength != Strength::decides && !follows);
  if (found.strength != Strength::nothing && better) {
    telling_ = found;
    told_ = trim(line);
    told_.resize(std::min(told_.size(), kToldBytes));
  }
}

/// Lines that follow and make the one that says why complete: where a fatal error was, and which peer NCCL lost.
void Evidence::follow(std::string_view line) {
  if (std::exchange(details_, false) && !trim(line).empty()) {
    told_ += "; " + std::string(trim(line));
    told_.resize(std::min(told_.size(), kToldBytes));
  }
  details_ = (told_.starts_with("ncclRemoteError") && line == "Last error:") ||
             (told_.starts_with("Fatal Python error") && line.starts_with("Current thread 0x"));
}

void Evidence::keep(std::string_view line) {
  bool const in_frame = !entries_.empty() && entries_.back().shape == Shape::python_frame;
  if (in_frame && (entries_.back().lines.empty() || line.starts_with("    "))) {
    auto& frame = entries_.back().lines;
    if (line.find_first_not_of(" ~^") != std::string_view::npos && frame.size() < kAlike) {
      bytes_ += cost(frame.emplace_back(line.substr(0, kFrameBytes)));
    }
  } else if (auto const look = fnv1a_without_numbers(line);
             !entries_.empty() && entries_.back().shape == Shape::line && entries_.back().look == look) {
    auto& alike = entries_.back();
    if (++alike.count > kAlike) {
      std::rotate(alike.lines.begin() + 1, alike.lines.begin() + 2, alike.lines.end());
      bytes_ -= cost(alike.lines.back());
      alike.lines.back().assign(line);
      bytes_ += cost(alike.lines.back());
    } else {
      bytes_ += cost(alike.lines.emplace_back(line));
    }
  } else {
    entries_.push_back(Entry{Shape::line, look, 1, 0, {std::string(line)}});
    bytes_ += kEntryBytes + cost(entries_.back().lines.back());
  }
}

Evidence::Entry& Evidence::fold(Shape shape, bool anew) {
  if (anew || entries_.empty() || entries_.back().shape != shape) {
    entries_.push_back(Entry{shape, 0, 0, 0, {}});
    bytes_ += kEntryBytes;
  }
  return entries_.back();
}

std::vector<std::string> Evidence::shown() const {
  std::vector<std::string> lines;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->shape == Shape::native_frame) {
      lines.push_back("… " + counted(entry->count, "frame") +
                      (entry->threads > 0 ? " of " + counted(entry->threads, "other thread") : ""));
    } else if (entry->shape == Shape::modules) {
      lines.push_back("… " + counted(entry->count, "extension module"));
    } else {
      auto const is_frame = [](Entry const& each) { return each.shape == Shape::python_frame; };
      auto const end = std::find_if_not(entry, entries_.end(), is_frame);
      if (end - entry > static_cast<std::ptrdiff_t>(kLastFrames + 2)) {
        lines.insert(lines.end(), entry->lines.begin(), entry->lines.end());
        auto const last = end - static_cast<std::ptrdiff_t>(kLastFrames);
        lines.push_back("  … " + counted(static_cast<std::size_t>(last - entry) - 1, "frame"));
        entry = last;
      }
      lines.insert(lines.end(), entry->lines.begin(), entry->lines.end());
      if (entry->count > kAlike) {
        auto const at = lines.end() - static_cast<std::ptrdiff_t>(entry->lines.size()) + 1;
        lines.insert(at, "… " + std::to_string(entry->count - entry->lines.size()) + " more like it");
      }
    }
  }
  return lines;
}

LastWords Evidence::words() const {
  Evidence ended = *this;  // a last line without its newline is one, too
  if (!line_.empty()) {
    ended.end_line();
  }
  auto const lines = ended.shown();
  std::size_t bytes = 0;
  auto first = lines.end();
  while (first != lines.begin() && lines.end() - first < static_cast<std::ptrdiff_t>(kTailLines) &&
         bytes + (first - 1)->size() + 1 <= kTailBytes) {
    bytes += (--first)->size() + 1;
  }
  LastWords last{join({first, lines.end()}, "\n"), ended.told_, ended.telling_.role};
  if (line_.empty() && !last.tail.empty()) {
    last.tail += '\n';
  }
  return last;
}

}  // namespace cxxrun::launcher
