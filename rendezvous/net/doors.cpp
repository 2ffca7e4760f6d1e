#include "rendezvous/net/doors.hpp"

#include <algorithm>

#include "src/base/core/text.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::rendezvous {
namespace {

Millis at_most(Doors const& doors, Millis deadline) {
  return doors.once ? std::min(doors.patience, deadline) : deadline;
}

/// No door gets another turn, from now on.
bool is_over(Doors& doors, TimePoint now) {
  bool const wrong_for_long =
      doors.only_port && doors.wrong_since && now - *doors.wrong_since > Doors::kWrongPeerPatience;
  doors.over = doors.over || (doors.swept && (doors.once || now > doors.give_up_at || wrong_for_long));
  return doors.over;
}

void end_sweep(Doors& doors, TimePoint now) {
  doors.swept = true;
  doors.next = 0;
  doors.next_at = now + doors.pause;
  doors.pause = std::min(doors.pause * 2, Doors::kLongestPause);
}

}  // namespace

DoorAct next_act(Doors& doors, TimePoint now) {
  auto const late =
      std::find_if(doors.open.begin(), doors.open.end(), [&](auto const& entry) { return entry.second.until <= now; });
  if (late != doors.open.end()) {
    Door const door = late->first;
    failed(doors, door, late->second.connected ? NoEntry::wrong : NoEntry::silent, now);
    return Leave{door};
  }
  while (!is_over(doors, now)) {
    if (now < doors.next_at || doors.open.size() == doors.count) {
      return {};
    }
    while (doors.open.contains(doors.next)) {
      ++doors.next;
    }
    if (doors.next < doors.count) {
      doors.open[doors.next] = {now + at_most(doors, Doors::kConnectDeadline)};
      doors.next_at = now + Doors::kStagger;
      return Knock{doors.next++};
    }
    end_sweep(doors, now);
  }
  return doors.open.empty() ? DoorAct(GiveUp{doors.only_port && doors.wrong_since}) : DoorAct();
}

std::optional<TimePoint> due(Doors const& doors) {
  std::optional<TimePoint> first;
  for (auto const& [door, knocked] : doors.open) {
    first = earliest({first, knocked.until});
  }
  bool const no_turns = doors.over || doors.open.size() == doors.count;
  return no_turns ? first : earliest({first, doors.next_at});
}

void add(Doors& doors, std::size_t some, TimePoint now) {
  doors.next = doors.count;
  doors.count += some;
  doors.next_at = now;
}

void connected(Doors& doors, Door door, TimePoint now) {
  doors.open[door] = {now + at_most(doors, Doors::kHelloDeadline), true};
}

void failed(Doors& doors, Door door, NoEntry how, TimePoint now) {
  doors.open.erase(door);
  doors.refused = doors.refused && how == NoEntry::refused;
  if (how == NoEntry::wrong && !doors.wrong_since) {
    doors.wrong_since = now;
  }
  if (doors.open.empty()) {
    doors.next_at = std::min(doors.next_at, now);
  }
}

bool is_long(Doors const& doors, TimePoint now) {
  return now < doors.give_up_at && now >= doors.give_up_at - doors.patience + Doors::kToldAfter;
}

std::string nobody_line(Doors const& doors, std::string const& where, std::string const& trouble) {
  return "no coordinator at " + where + " within " + seconds_text(doors.patience) + " (" + trouble + "); " +
         (doors.refused ? "the host is up, but nobody listens there: is the agent of the first node running, on that "
                          "host and with that port?"
                        : "is that the first node, and can this one reach it there, through firewalls and in its "
                          "network?");
}

}  // namespace cxxrun::rendezvous
