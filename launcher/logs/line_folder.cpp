#include "launcher/logs/line_folder.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

constexpr std::size_t kHeldLineBytes = 128;  // memory of an entry besides its text, about

void LineFolder::open(std::uint64_t id, std::uint32_t rank, std::string prefix) {
  streams_[id] = std::make_shared<Stream>(Stream{rank, std::move(prefix), first_});
  whole_ = streams_.size();
}

void LineFolder::close(std::uint64_t id) {
  streams_.erase(id);
}

std::uint64_t LineFolder::place_for(Stream const& stream, std::string_view line, TimePoint now) {
  auto found = places_.find(line);
  if (found == places_.end()) {
    found = places_.emplace(std::string(line), std::deque<std::uint64_t>{}).first;
  }
  auto& places = found->second;
  auto const place = std::ranges::lower_bound(places, stream.next);
  if (place != places.end()) {
    return *place;
  }
  bytes_ += line.size() + kHeldLineBytes;
  held_.push_back({found, now, {}});
  places.push_back(first_ + held_.size() - 1);
  return places.back();
}

void LineFolder::feed(std::uint64_t id, std::string_view line, TimePoint now, std::string& out) {
  auto const& stream = streams_.at(id);
  auto const place = place_for(*stream, line, now);
  assert(place >= first_ && place - first_ < held_.size());
  held_[place - first_].from.push_back(stream);
  stream->next = place + 1;
  while (!held_.empty() && (bytes_ > kMostHeld || held_.front().from.size() >= whole_)) {
    emit_first(out);
  }
}

void LineFolder::take(TimePoint now, std::string& out) {
  while (!held_.empty() && now >= held_.front().since + kHeldFor) {
    emit_first(out);
  }
}

void LineFolder::flush(std::string& out) {
  while (!held_.empty()) {
    emit_first(out);
  }
}

std::optional<TimePoint> LineFolder::due() const {
  return held_.empty() ? std::nullopt : std::optional(held_.front().since + kHeldFor);
}

void LineFolder::emit_first(std::string& out) {
  Entry const& entry = held_.front();
  std::string const& line = entry.text->first;
  if (entry.from.size() < kFoldedFrom) {
    for (auto const& stream : entry.from) {
      out.append(stream->prefix).append(line);
    }
  } else {
    out.append("[×").append(std::to_string(entry.from.size()));
    if (entry.from.size() < whole_) {
      out.append(": ").append(number_list(list_of(entry.from, [](auto const& stream) { return stream->rank; })));
    }
    out.append("] ").append(line);
  }
  bytes_ -= line.size() + kHeldLineBytes;
  assert(entry.text->second.front() == first_);
  entry.text->second.pop_front();
  if (entry.text->second.empty()) {
    places_.erase(entry.text);
  }
  held_.pop_front();
  ++first_;
}

}  // namespace cxxrun::launcher
