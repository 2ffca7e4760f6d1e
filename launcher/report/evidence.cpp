#include "launcher/report/evidence.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "rendezvous/history/restarts.hpp"
#include "src/base/core/hash.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kBytesPerMicrosecond = 2;
constexpr std::size_t kAlike = 4;         // more lines that differ only in numbers are folded
constexpr std::size_t kEntryBytes = 192;  // memory of an entry besides its text, about
constexpr std::size_t kNearFrames = 3;    // shown of the thread that died
constexpr std::size_t kLastFrames = 3;    // shown of a traceback, besides the first
constexpr std::size_t kFrameBytes = 1024;

std::size_t cost(std::string const& line) {
  return sizeof(std::string) + line.capacity();
}

/// Number of modules in the list: "(total: 42)" at its end, else the number of names.
std::size_t modules_in(std::string_view line) {
  auto const total = line.rfind("(total: ");
  auto const number = total == std::string_view::npos ? "" : line.substr(total + 8, line.size() - total - 9);
  return number_in<std::size_t>(number).value_or(static_cast<std::size_t>(std::ranges::count(line, ',')) + 1);
}

/// The last whole lines that fit in `most` bytes; if the last line is longer, its end.
std::string_view last_lines(std::string_view lines, std::size_t most) {
  if (lines.size() <= most) {
    return lines;
  }
  auto const cut = lines.size() - most;
  auto const begin = lines.find('\n', cut - 1) + 1;
  return lines.substr(begin < lines.size() ? begin : cut);
}

/// Whether Python goes on as if the exception that follows had not been raised. Its own words for that differ by
/// release: "in: ", "on ", "while calling ".
bool begins_ignored(std::string_view line) {
  return line.starts_with("Exception ignored ") || line == "Error in atexit._run_exitfuncs:" ||
         line == "--- Logging error ---";
}

}  // namespace

void Reason::add(std::string_view line) {
  if (!in_traceback_ && !details_ && !notable(line)) {
    return;
  }
  if (details_ || meaning_.strength == Strength::explains) {
    add_details(line);
  }
  bool const ends_traceback = in_traceback_ && !line.empty() && line.front() != ' ' && line.front() != '\t';
  if (line.find("Traceback (most recent call last)") != std::string_view::npos) {
    in_traceback_ = true;
    return;
  }
  if (begins_ignored(line)) {
    ignored_ = true;
    return;
  }
  bool const is_cause = line.starts_with("The above exception was the");
  if (is_cause || line.starts_with("During handling of the above exception")) {
    chained_ = !passed_over_;
    caused_ = is_cause;
    ignored_ = passed_over_;  // the whole chain is
    return;
  }
  auto found = meaning_of(line);
  if (ends_traceback) {
    in_traceback_ = false;
    found.strength = std::max(found.strength, Strength::explains);
  }
  if (found.strength >= Strength::explains) {
    passed_over_ = std::exchange(ignored_, false);
    found.strength = passed_over_ ? Strength::hints : found.strength;
  }
  // An exception raised while another one is handled is its consequence if their roles differ: one of the two is a
  // victim's. The same holds for one that is raised from an exception that every restart would bring again.
  bool const follows = found.strength == Strength::explains && std::exchange(chained_, false) &&
                       meaning_.strength == Strength::explains &&
                       (found.role != meaning_.role || (caused_ && rendezvous::is_repeated(told_)));
  bool const better = found.strength > meaning_.strength ||
                      (found.strength == meaning_.strength && found.strength != Strength::decides && !follows);
  if (found.strength != Strength::nothing && better) {
    meaning_ = found;
    told_ = trim(line);
    told_.resize(std::min(told_.size(), kToldBytes));
  }
}

/// Appends a line that completes `told_`: where a fatal error was, or which peer NCCL lost.
void Reason::add_details(std::string_view line) {
  if (std::exchange(details_, false) && !trim(line).empty()) {
    told_ += "; " + std::string(trim(line));
    told_.resize(std::min(told_.size(), kToldBytes));
  }
  details_ = (told_.starts_with("ncclRemoteError") && line == "Last error:") ||
             (told_.starts_with("Fatal Python error") && line.starts_with("Current thread 0x"));
}

void Evidence::feed(std::string_view chunk, TimePoint now) {
  bool const calm = affordable(held_.size() + chunk.size(), now);
  if (calm) {
    place_held();
  }
  auto const take = [&](std::string_view lines) { calm ? place(lines) : hold(lines); };
  auto const end = chunk.find('\n');
  if (end == std::string_view::npos) {
    open_.extend(chunk);
    return;
  }
  if (!open_.empty()) {
    open_.extend(chunk.substr(0, end));
    take(open_.end() + '\n');
    chunk.remove_prefix(end + 1);
  }
  auto const whole = chunk.rfind('\n') + 1;
  take(chunk.substr(0, whole));
  open_.extend(chunk.substr(whole));
}

/// Whether the budget suffices for `bytes`; takes them from it.
bool Evidence::affordable(std::size_t bytes, TimePoint now) {
  auto const passed = std::chrono::duration_cast<std::chrono::microseconds>(now - filled_);
  filled_ += passed;
  auto const more =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(passed.count()) * kBytesPerMicrosecond, kLookBytes);
  may_look_ = std::min(may_look_ + static_cast<std::size_t>(more), kLookBytes);
  bool const enough = bytes <= may_look_;
  may_look_ -= enough ? bytes : 0;
  return enough;
}

/// Keeps the last of the whole lines unparsed, and counts the bytes of the others.
void Evidence::hold(std::string_view lines) {
  held_.reserve(2 * kHeldBytes);
  auto const kept = last_lines(lines, kHeldBytes);
  auto const room = kept.size() < lines.size() ? 0 : 2 * kHeldBytes - lines.size();
  auto const old = held_.size() <= room ? held_.size() : last_lines(held_, std::min(room, kHeldBytes)).size();
  if (auto const skipped = lines.size() - kept.size() + held_.size() - old; skipped > 0) {
    fold(Shape::passed).count += skipped;
    reason_.skip();
    held_.erase(0, held_.size() - old);
    make_room();
  }
  held_.append(kept);
}

void Evidence::place_held() {
  place(held_);
  std::string().swap(held_);
}

void Evidence::place(std::string_view lines) {
  std::string room;
  while (!lines.empty()) {
    auto const end = lines.find('\n');
    place_line(plain_line(lines.substr(0, end), room));
    make_room();
    lines.remove_prefix(end + 1);
  }
}

void Evidence::place_line(std::string_view text) {
  reason_.add(text);
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
    case Shape::passed:
      // The blank line between two threads is no line of its own.
      if (!text.empty() || entries_.empty() || entries_.back().shape != Shape::native_frame) {
        keep(text);
      }
      break;
  }
}

void Evidence::make_room() {
  while (!entries_.empty() && bytes_ > kKeptBytes) {
    bytes_ -= kEntryBytes;
    for (auto const& old : entries_.front().lines) {
      bytes_ -= cost(old);
    }
    entries_.pop_front();
  }
}

void Evidence::keep(std::string_view line) {
  bool const in_frame = !entries_.empty() && entries_.back().shape == Shape::python_frame;
  if (in_frame && (entries_.back().lines.empty() || line.starts_with("    "))) {
    auto& frame = entries_.back().lines;
    if (line.find_first_not_of(" ~^") != std::string_view::npos && frame.size() < kAlike) {
      bytes_ += cost(frame.emplace_back(line.substr(0, kFrameBytes)));
    }
  } else if (auto const pattern = fnv1a_without_numbers(line);
             !entries_.empty() && entries_.back().shape == Shape::line && entries_.back().pattern == pattern) {
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
    entries_.push_back(Entry{Shape::line, pattern, 1, 0, {std::string(line)}});
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
    } else if (entry->shape == Shape::passed) {
      lines.push_back("… " + std::to_string((entry->count + 1023) / 1024) + " KiB of lines in between");
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
  Evidence ended = *this;  // parses what is left, also a last line without newline
  ended.place_held();
  if (!open_.empty()) {
    ended.place(ended.open_.end() + '\n');
  }
  auto const lines = ended.shown();
  std::size_t bytes = 0;
  auto first = lines.end();
  while (first != lines.begin() && lines.end() - first < static_cast<std::ptrdiff_t>(kTailLines) &&
         bytes + (first - 1)->size() + 1 <= kTailBytes) {
    bytes += (--first)->size() + 1;
  }
  LastWords last{join({first, lines.end()}, "\n"), ended.reason_.told(), ended.reason_.role()};
  if (open_.empty() && !last.tail.empty()) {
    last.tail += '\n';
  }
  return last;
}

}  // namespace cxxrun::launcher
