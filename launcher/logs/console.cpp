#include "launcher/logs/console.hpp"

#include <algorithm>

namespace cxxrun::launcher {
namespace {

/// Length of the first line, or of the first redraw, with its end.
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

CarriageReturn meaning_of_return(Console const& console) {
  return console.writer.is_terminal() ? CarriageReturn::redraws : CarriageReturn::byte;
}

}  // namespace

void Console::end_open_line(std::size_t begin, ConsoleStream const* by) {
  if (open != nullptr && open != by && staged.size() > begin) {
    staged.insert(begin, 1, '\n');
    std::exchange(open, nullptr)->on_interrupted();
  }
}

void Console::show_unfinished(TimePoint now) {
  if (!look || now < *look) {
    return;
  }
  look.reset();
  std::erase_if(unfinished, [&](ConsoleStream* stream) {
    auto const next = stream->show_unfinished(now);
    look = sooner(look, next);
    return !next;
  });
}

Consoles::Consoles(int out, int err, std::function<void()> const& wake) {
  both_[0] = std::make_shared<Console>(out, wake);
  // One writer for `2>&1` keeps the order between the two and never mixes their lines.
  both_[1] = same_console(out, err) ? both_[0] : std::make_shared<Console>(err, wake);
}

std::optional<TimePoint> Consoles::push() {
  std::optional<TimePoint> held;
  std::optional<TimePoint> unfinished;
  for (auto const& console : both_) {
    if (console->look) {
      console->show_unfinished(Clock::now());
      unfinished = sooner(unfinished, console->look);
    }
    for (auto& folder : console->folders) {
      if (folder.due()) {
        auto const begin = console->staged.size();
        folder.take(Clock::now(), console->staged);
        console->end_open_line(begin, nullptr);
        held = sooner(held, folder.due());
      }
    }
  }
  bool const holds = held || both_[0]->open != nullptr || both_[1]->open != nullptr;
  if (holds && !holding_) {
    // Set before the push, under the lock: a say() that has begun writes before the held output, later ones wait.
    std::lock_guard const lock(mutex_);
    holding_ = true;
  }
  for (auto const& console : both_) {
    console->writer.push(console->staged);
  }
  holding_ = holds;
  return sooner(held, unfinished);
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
    auto const begin = console->staged.size();
    for (auto& folder : console->folders) {
      folder.flush(console->staged);
    }
    console->end_open_line(begin, nullptr);
  }
  if (auto* const open = std::exchange(both_[1]->open, nullptr)) {
    both_[1]->staged += '\n';
    open->on_interrupted();
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

ConsoleStream::ConsoleStream(Console& console, std::uint64_t id, ConsoleStreamOptions const& options)
    : console_(console),
      prefixer_(options.fold ? "" : options.prefix, kLongestLine, meaning_of_return(console),
                !options.fold && console.writer.shows_parts_of_lines() ? PartialLine::open : PartialLine::ended),
      times_(options.patience),
      folder_(options.fold ? &console.folders.at(options.to_stderr ? 1 : 0) : nullptr),
      id_(id) {
  if (folder_ != nullptr) {
    folder_->open(id, options.rank, options.prefix);
  }
}

template <class Append>
void ConsoleStream::emit(Append const& append) {
  if (folder_ != nullptr) {
    append(console_.lines);
    hold();
    return;
  }
  auto const begin = console_.staged.size();
  append(console_.staged);
  console_.end_open_line(begin, this);
  if (prefixer_.is_open()) {
    console_.open = this;
  } else if (console_.open == this) {
    console_.open = nullptr;
  }
}

void ConsoleStream::feed(std::string_view bytes) {
  emit([&](std::string& out) {
    if (prefixer_.feed(bytes, out)) {
      times_.on_line_end();
    }
  });
  if (!prefixer_.unfinished()) {
    return;
  }
  times_.on_bytes(Clock::now());
  console_.look = sooner(console_.look, times_.due(prefixer_.redrawn()));
  if (!std::exchange(listed_, true)) {
    console_.unfinished.push_back(this);
  }
}

std::optional<TimePoint> ConsoleStream::show_unfinished(TimePoint now) {
  if (prefixer_.unfinished()) {
    if (auto const due = times_.due(prefixer_.redrawn()); now < due) {
      return due;
    }
    emit([&](std::string& out) { prefixer_.show(out); });
    times_.on_shown(now);
  }
  listed_ = false;
  return std::nullopt;
}

void ConsoleStream::end() {
  emit([&](std::string& out) { prefixer_.flush(out); });
  if (folder_ != nullptr) {
    folder_->close(id_);
  }
  std::erase(console_.unfinished, this);
}

void ConsoleStream::hold() {
  auto const now = Clock::now();
  bool const redraws = console_.writer.is_terminal();
  auto const begin = console_.staged.size();
  for (std::string_view rest = console_.lines; !rest.empty();) {
    auto const length = length_of_first(rest, redraws);
    folder_->feed(id_, rest.substr(0, length), now, console_.staged);
    rest.remove_prefix(length);
  }
  console_.lines.clear();
  console_.end_open_line(begin, this);
}

}  // namespace cxxrun::launcher
