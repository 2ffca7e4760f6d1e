#include "src/base/store/waits.hpp"

#include <utility>

namespace cxxrun::store {

Waits::All::iterator Waits::begin(ConnectionId who, std::uint64_t bytes) {
  forget(who);
  auto const wait = waits_.try_emplace(who).first;
  wait->second.ticket = ++tickets_;
  wait->second.bytes = bytes;
  bytes_ += bytes;
  return wait;
}

void Waits::for_keys(ConnectionId who, std::vector<std::string> missing, std::uint64_t bytes) {
  Wait& wait = begin(who, bytes)->second;
  wait.keys = std::move(missing);
  for (std::string const& key : wait.keys) {
    wait.left += missing_[key].emplace(wait.ticket, who).second ? 1 : 0;  // named twice, it counts once
  }
}

void Waits::at_barrier(ConnectionId who, std::string key, std::int64_t world, std::uint64_t bytes) {
  Wait& wait = begin(who, bytes)->second;
  wait.world = world;
  wait.keys.push_back(std::move(key));
  barriers_[wait.keys.front()].emplace(wait.ticket, who);
}

void Waits::forget(ConnectionId who) {
  auto const found = waits_.find(who);
  if (found == waits_.end()) {
    return;
  }
  for (std::string const& key : found->second.keys) {
    leave(missing_, key, found->second.ticket);
    leave(barriers_, key, found->second.ticket);
  }
  bytes_ -= found->second.bytes;
  waits_.erase(found);
}

void Waits::leave(ByKey<Line>& lines, std::string_view key, std::uint64_t ticket) {
  auto const line = lines.find(key);
  if (line != lines.end() && line->second.erase(ticket) > 0 && line->second.empty()) {
    lines.erase(line);
  }
}

void Waits::end(All::iterator wait, std::vector<ConnectionId>& woken) {
  woken.push_back(wait->first);
  bytes_ -= wait->second.bytes;
  waits_.erase(wait);
}

void Waits::created(std::string_view key, std::vector<ConnectionId>& woken) {
  auto const line = missing_.find(key);
  if (line == missing_.end()) {
    return;
  }
  auto const here = missing_.extract(line);
  for (auto const& [ticket, who] : here.mapped()) {
    auto const wait = waits_.find(who);
    if (--wait->second.left == 0) {
      end(wait, woken);
    }
  }
}

void Waits::pushed(std::string_view key, std::vector<ConnectionId>& woken) {
  auto const before = woken.size();
  for (auto line = missing_.find(key); line != missing_.end() && woken.size() == before; line = missing_.find(key)) {
    auto const [ticket, who] = *line->second.begin();
    leave(missing_, key, ticket);
    auto const wait = waits_.find(who);
    if (--wait->second.left == 0) {
      end(wait, woken);
    }
  }
}

void Waits::counted(std::string_view key, std::int64_t count, std::vector<ConnectionId>& woken) {
  auto const line = barriers_.find(key);
  if (line == barriers_.end()) {
    return;
  }
  for (auto entry = line->second.begin(); entry != line->second.end();) {
    auto const wait = waits_.find(entry->second);
    if (wait->second.world > count) {
      ++entry;
    } else {
      entry = line->second.erase(entry);
      end(wait, woken);
    }
  }
  if (line->second.empty()) {
    barriers_.erase(line);
  }
}

}  // namespace cxxrun::store
