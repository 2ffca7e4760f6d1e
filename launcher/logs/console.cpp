#include "launcher/logs/console.hpp"

#include <algorithm>

namespace cxxrun::launcher {
namespace {

/// Of the first line, or redraw, its end included.
std::size_t length_of_first(std::string_view lines, bool redraws) {
  auto const newline = lines.find('\n');
  auto const to = newline == std::string_view::npos ? lines.size() : newline + 1;
  auto const at = redraws ? lines.substr(0, to).find('\r') : std::string_view::npos;
  if (at == std::string_view::npos) {
    return to;
  }
  return at + (lines.substr(at + 1, 1) == "\n" ? 2 : 1);
}

std::optional<TimePoint> sooner(std::optional<TimePoint> one, std::optional<TimePoint> other) {
  return one && other ? std::min(one, other) : one ? one : other;
}

Return meaning_of_return(Console const& console) {
  return console.writer.is_terminal() ? Return::redraws : Return::byte;
}

}  // namespace

Consoles::Consoles(int out, int err, std::function<void()> const& wake) {
  both_[0] = std::make_shared<Console>(out, wake);
  // One writer for `2>&1`: keeps the order between the two and does not cut into each other's lines.
  both_[1] = same_console(out, err) ? both_[0] : std::make_shared<Console>(err, wake);
}

std::optional<TimePoint> Consoles::push() {
  std::optional<TimePoint> next;
  for (auto const& console : both_) {
    for (auto& folder : console->folders) {
      if (folder.due()) {
        folder.take(Clock::now(), console->staged);
        next = sooner(next, folder.due());
      }
    }
    console->writer.push(console->staged);
  }
  holding_ = next.has_value();
  return next;
}

bool Consoles::say(std::string line) {
  std::lock_guard const lock(mutex_);
  if (!holding_ && said_.empty()) {
    both_[1]->writer.push(line);
    return true;
  }
  said_ += line;
  return false;
}

void Consoles::say_waiting() {
  for (auto const& console : both_) {
    for (auto& folder : console->folders) {
      folder.flush(console->staged);
    }
  }
  static_cast<void>(push());
  std::lock_guard const lock(mutex_);
  both_[1]->writer.push(said_);
}

bool Consoles::finish(TimePoint deadline) {
  {
    std::lock_guard const lock(mutex_);
    both_[1]->writer.push(said_);
  }
  bool complete = true;
  for (auto const& console : both_) {
    complete = console->writer.finish(deadline) && complete;
  }
  return complete;
}

ShownStream::ShownStream(Console& console, bool to_stderr, std::uint64_t id, std::uint32_t rank,
                         std::string const& prefix, bool fold)
    : console_(console),
      prefixer_(fold ? "" : prefix, kLongestLine, meaning_of_return(console)),
      folder_(fold ? &console.folders.at(to_stderr ? 1 : 0) : nullptr),
      id_(id) {
  if (folder_ != nullptr) {
    folder_->open(id, rank, prefix);
  }
}

void ShownStream::feed(std::string_view bytes) {
  if (folder_ == nullptr) {
    prefixer_.feed(bytes, console_.staged);
    return;
  }
  prefixer_.feed(bytes, console_.lines);
  hold();
}

void ShownStream::end() {
  if (folder_ == nullptr) {
    prefixer_.flush(console_.staged);
    return;
  }
  prefixer_.flush(console_.lines);
  hold();
  folder_->close(id_);
}

void ShownStream::hold() {
  auto const now = Clock::now();
  bool const redraws = console_.writer.is_terminal();
  for (std::string_view rest = console_.lines; !rest.empty();) {
    auto const length = length_of_first(rest, redraws);
    folder_->feed(id_, rest.substr(0, length), now, console_.staged);
    rest.remove_prefix(length);
  }
  console_.lines.clear();
}

}  // namespace cxxrun::launcher
