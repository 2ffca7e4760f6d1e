#include "rendezvous/membership/hanging.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/hang_groups.hpp"
#include "src/core/rank_name.hpp"
#include "src/core/text.hpp"
#include "src/worker/page_view.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Millis kLeastPause{50};
constexpr Millis kMostPause{1000};
constexpr std::size_t kMostNamed = 8;  // and killed: one death ends the generation for all

using Seen = HangState::Seen;

/// What is wrong, as far as standing still for a limit shows it.
struct Finding {
  std::uint64_t group = kDefaultGroup;
  std::vector<std::uint32_t> members;  ///< of another group than that
  std::vector<Seen const*> waiting;    ///< inside the newest collective of it that somebody waits in for the limit
  std::vector<Seen const*> late;       ///< not in it, or stopped in it; the furthest behind first
  std::vector<Seen const*> crossed;    ///< nobody is late, and these wait for each other in different groups
  std::uint64_t sequence = 0;          ///< of that collective; 0: nobody waits
  Millis longest{0};                   ///< how long the first of them has waited

  [[nodiscard]] std::uint64_t begun_by(Seen const& seen) const { return begun_in(group, seen.last).value_or(0); }
};

bool inside(Standstill const& figures) {
  return figures.entered > figures.done;
}

/// What its agent compares before it kills it.
std::uint64_t moves_of(Standstill const& figures) {
  return worker::begun_in_all(figures.entered, figures.groups);
}

Millis still_for(Seen const& seen, TimePoint now) {
  return std::chrono::duration_cast<Millis>(now - seen.since);
}

/// In one of PyTorch's groups it is not known who is inside, but for one that is in no collective.
bool inside(Standstill const& figures, std::uint64_t group) {
  return group == kDefaultGroup ? inside(figures) : !figures.idle;
}

/// The newest collective of the group that somebody has waited in for the limit; 0: there is none.
std::uint64_t newest(HangState const& state, std::uint64_t group, TimePoint now, Millis limit) {
  std::uint64_t sequence = 0;
  for (auto const& [rank, seen] : state.ranks) {
    if (inside(seen.last, group) && !seen.last.halted && still_for(seen, now) >= limit) {
      sequence = std::max(sequence, begun_in(group, seen.last).value_or(0));
    }
  }
  return sequence;
}

Finding find_in(std::uint64_t group, HangState const& state, HangGroups const& groups, TimePoint now, Millis limit,
                Millis blur) {
  Finding found;
  found.group = group;
  found.sequence = newest(state, group, now, limit);
  for (auto const& [rank, seen] : state.ranks) {
    auto const begun = begun_in(group, seen.last);
    if (found.sequence == 0 || !begun || still_for(seen, now) < limit - blur) {
      continue;
    }
    bool const here = inside(seen.last, group) && *begun == found.sequence;
    if (here && !seen.last.halted) {
      found.waiting.push_back(&seen);
      found.longest = std::max(found.longest, still_for(seen, now));
    } else if ((*begun < found.sequence || here) && (seen.last.halted || !groups.may_wait(seen.last, group))) {
      found.late.push_back(&seen);
    }
  }
  std::stable_sort(found.late.begin(), found.late.end(),
                   [&](Seen const* a, Seen const* b) { return found.begun_by(*a) < found.begun_by(*b); });
  // Who is inside an older one than the others waits for those that are further behind.
  auto const furthest = found.late.empty() ? 0 : found.begun_by(*found.late.front());
  std::erase_if(found.late, [&](Seen const* seen) {
    return inside(seen->last, group) && !seen->last.halted && found.begun_by(*seen) > furthest;
  });
  return found;
}

/// In the default group; or in the first of the others in which a rank is late, if none is in that, or only stopped:
/// what it had begun there may be long done.
Finding find(HangState const& state, std::uint32_t world, TimePoint now, Millis limit, Millis blur) {
  HangGroups const groups(state, world, now - (limit - blur));
  auto found = find_in(kDefaultGroup, state, groups, now, limit, blur);
  bool const is_late = !found.late.empty() && found.begun_by(*found.late.front()) < found.sequence;
  auto const all = is_late ? std::vector<std::uint64_t>{} : groups.all();
  for (auto const group : all) {
    if (auto in_group = find_in(group, state, groups, now, limit, blur); !in_group.late.empty()) {
      in_group.members = groups.members(group);
      return in_group;
    }
  }
  for (auto const& [rank, seen] : state.ranks) {
    if (found.late.empty() && !all.empty() && groups.is_behind_where_all_stand(seen.last) &&
        still_for(seen, now) >= limit) {
      found.crossed.push_back(&seen);
      found.longest = std::max(found.longest, still_for(seen, now));
    }
  }
  return found;
}

/// "a collective of ranks 2, 3": PyTorch's numbers of a group's collectives mean nothing to people.
std::string of_group(Finding const& found) {
  std::string text = "a collective of ranks ";
  for (std::size_t i = 0; i < std::min(found.members.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(found.members[i]);
  }
  auto const more = found.members.size() - std::min(found.members.size(), kMostNamed);
  return more == 0 ? text : text + " and " + std::to_string(more) + " more";
}

std::string in_what(Finding const& found) {
  if (found.group != kDefaultGroup) {
    return of_group(found);
  }
  auto const& last = found.waiting.front()->last;
  return worker::number_operation(last.entered, last.what, last.count);
}

std::string whole_seconds(Millis time) {
  return seconds_text(time < Millis{10'000} ? time / 100 * 100 : time / 1000 * 1000);
}

std::string others(std::size_t number) {
  return std::to_string(number) + (number == 1 ? " other" : " others");
}

std::string name(Seen const& seen) {
  return rank_name(seen.last.rank, seen.host);
}

std::string names(std::vector<Seen const*> const& many) {
  std::string text;
  for (std::size_t i = 0; i < std::min(many.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + name(*many[i]);
  }
  return many.size() <= kMostNamed ? text : text + " and " + std::to_string(many.size() - kMostNamed) + " more";
}

std::string last_seen(Standstill const& last) {
  if (last.entered == 0) {
    return "has entered no collective yet";
  }
  auto const what = worker::number_operation(last.entered, last.what, last.count);
  bool const is_done = last.what == worker::kBegunOperation ? last.count == worker::kIsDone : !inside(last);
  bool const is_under_way = !is_done && last.what != worker::kBegunOperation;
  return (is_done ? "has done " : is_under_way ? "is in " : "has begun ") + what;
}

/// How one of those that are late is told of in the cause.
std::string accuse(Seen const& seen, Finding const& found) {
  bool const stopped_inside = found.begun_by(seen) == found.sequence;
  return (stopped_inside     ? "was stopped in "
          : seen.last.halted ? "is stopped and did not enter "
                             : "did not enter ") +
         in_what(found) + " for " + whole_seconds(found.longest) + " that " + others(found.waiting.size()) +
         " waited in";
}

std::string line_about_late(Finding const& found) {
  auto const& first = *found.late.front();
  if (found.late.size() == 1 && found.begun_by(first) == found.sequence) {
    return name(first) + " is stopped in " + in_what(found) + " for " + whole_seconds(found.longest) + " that " +
           others(found.waiting.size()) + " wait in";
  }
  std::string text = names(found.late) + (found.late.size() == 1 ? " has" : " have") + " not entered " +
                     in_what(found) + " for " + whole_seconds(found.longest) + " that " + others(found.waiting.size()) +
                     " wait in";
  if (found.group == kDefaultGroup) {
    text += (found.late.size() == 1 ? "; it " : "; " + name(first) + " ") + last_seen(first.last);
  }
  return first.last.halted ? text + ", and its process is stopped" : text;
}

/// What it means by the collective that it is in: its kind and, where all must have as many, its elements; 0: not
/// known.
using Meaning = std::pair<comm::Kind, std::uint64_t>;

std::optional<Meaning> meaning(Seen const& seen) {
  if (worker::is_in_backward(seen.last.what, seen.last.count)) {
    return Meaning{comm::Kind::all_reduce, 0};
  }
  if (seen.last.what == worker::kUnknownOperation || seen.last.what == worker::kBegunOperation) {
    return std::nullopt;
  }
  auto const kind = static_cast<comm::Kind>(seen.last.what & 0xffU);
  bool const as_many = kind == comm::Kind::all_reduce || kind == comm::Kind::broadcast;
  return Meaning{kind, as_many ? seen.last.count : 0};
}

bool differ(Meaning const& one, Meaning const& other) {
  return one.first != other.first || (one.second != 0 && other.second != 0 && one.second != other.second);
}

/// One of those that more than half of the world means alike; nobody: there is no such meaning.
Seen const* usual(Finding const& found, std::uint32_t world) {
  for (auto const* const each : found.waiting) {
    auto const mine = meaning(*each);
    auto const alike = std::count_if(found.waiting.begin(), found.waiting.end(), [&mine](Seen const* other) {
      auto const theirs = meaning(*other);
      return mine && theirs && !differ(*mine, *theirs);
    });
    if (static_cast<std::uint32_t>(alike) > world / 2) {
      return each;
    }
  }
  return nullptr;
}

/// Two that wait in one collective and do not mean the same by it; the first is the usual one where there is one.
std::optional<std::pair<Seen const*, Seen const*>> unlike(Finding const& found, std::uint32_t world) {
  auto const* const first = usual(found, world) != nullptr ? usual(found, world) : found.waiting.front();
  for (auto const* const other : found.waiting) {
    if (meaning(*first) && meaning(*other) && differ(*meaning(*first), *meaning(*other))) {
      return std::pair{first, other};
    }
  }
  return std::nullopt;
}

std::string call_of(Seen const& seen, char const* was = "was") {
  return worker::is_in_backward(seen.last.what, seen.last.count)
             ? was + std::string(" in a backward pass")
             : "called " + worker::describe_operation(seen.last.what, seen.last.count);
}

/// Nothing where it is not known that somebody waits: what has begun may be done.
std::string line_about_nobody(Finding const& found, std::uint32_t world) {
  auto const number = std::to_string(found.waiting.size());
  auto const time = " for " + whole_seconds(found.longest);
  if (auto const two = unlike(found, world)) {
    return "ranks wait in collective #" + std::to_string(found.sequence) + time +
           " and do not mean the same by it: " + name(*two->first) + " " + call_of(*two->first) + "; " +
           name(*two->second) + " " + call_of(*two->second);
  }
  if (std::all_of(found.waiting.begin(), found.waiting.end(),
                  [](Seen const* seen) { return seen->last.what == worker::kBegunOperation; })) {
    return "";
  }
  if (found.waiting.size() >= world) {
    return "all " + number + " ranks are in " + in_what(found) + time +
           " and nobody is missing: look at the network, or at a device";
  }
  return number + " of " + std::to_string(world) + " ranks are in " + in_what(found) + time +
         "; the others move, have been through it, or show nothing (no libcxxrun)";
}

std::string line_about_crossed(Finding const& found) {
  return names(found.crossed) + (found.crossed.size() == 1 ? " waits" : " wait") + " for " +
         whole_seconds(found.longest) +
         " in one group while others wait in another: do all ranks begin the collectives of their groups in one order?";
}

/// What a line is about, so that it is said once; "" = nothing.
std::string subject(Finding const& found) {
  if (found.waiting.empty() && found.crossed.empty()) {
    return "";
  }
  std::string text = std::to_string(found.group) + " " + std::to_string(found.sequence);
  for (std::size_t i = 0; i < std::min(found.late.size(), kMostNamed); ++i) {
    text += " " + std::to_string(found.late[i]->last.rank);
  }
  return text;
}

/// Those that mean something else than more than half of the world by the collective that all of it waits in.
std::vector<HangOrder> orders_for_unlike(Finding const& found, std::uint32_t world) {
  std::vector<HangOrder> all;
  auto const* const common = found.waiting.size() < world ? nullptr : usual(found, world);
  for (auto const* const seen : found.waiting) {
    bool const other = common != nullptr && meaning(*seen) && differ(*meaning(*common), *meaning(*seen));
    if (other && all.size() < kMostNamed) {
      all.push_back({seen->last.rank, moves_of(seen->last),
                     call_of(*seen) + " as collective #" + std::to_string(found.sequence) + " where most others " +
                         call_of(*common, "were") + ", and all waited for " + whole_seconds(found.longest)});
    }
  }
  return all;
}

std::vector<HangOrder> orders_for_late(Finding const& found) {
  std::vector<HangOrder> all;
  for (auto const* const seen : found.late) {
    bool const furthest_behind = found.begun_by(*seen) == found.begun_by(*found.late.front());
    if (furthest_behind && all.size() < kMostNamed && !found.waiting.empty()) {
      all.push_back({seen->last.rank, moves_of(seen->last), accuse(*seen, found)});
    }
  }
  return all;
}

std::vector<HangOrder> orders(HangState const& state, std::uint32_t world, TimePoint now, HangPolicy const& policy) {
  if (policy.timeout <= Millis{0}) {
    return {};
  }
  Finding const found = find(state, world, now, policy.timeout, policy.blur(policy.timeout));
  auto all = found.late.empty() ? orders_for_unlike(found, world) : orders_for_late(found);
  std::erase_if(all, [&](HangOrder const& order) { return state.ordered.contains(order.rank); });
  return all;
}

/// While somebody waits inside a collective; nothing can be wrong else.
void set_due(HangState& state, TimePoint now, HangPolicy const& policy) {
  bool const waits = std::any_of(state.ranks.begin(), state.ranks.end(), [](auto const& each) {
    return inside(each.second.last) || !each.second.last.groups.empty();
  });
  if (!waits) {
    state.due.reset();
  } else if (!state.due || *state.due <= now) {
    state.due = now + std::clamp(policy.warning() / 32, kLeastPause, kMostPause);
  }
}

}  // namespace

HangState report(HangState state, std::string const& host, std::vector<Standstill> const& told, TimePoint now,
                 HangPolicy const& policy) {
  for (auto const& each : told) {
    auto const before = state.ranks.find(each.rank);
    if (before != state.ranks.end() && (each.still <= Millis{0} || moves_of(before->second.last) != moves_of(each))) {
      state.ordered.erase(each.rank);  // it has moved
    }
    if (each.still <= Millis{0}) {
      state.ranks.erase(each.rank);
    } else {
      state.ranks.insert_or_assign(each.rank, Seen{each, host, now - each.still});
    }
  }
  set_due(state, now, policy);
  return state;
}

HangJudgement judge(HangState state, std::uint32_t world, TimePoint now, HangPolicy const& policy) {
  HangJudgement result;
  Finding const found = find(state, world, now, policy.warning(), policy.blur(policy.warning()));
  std::string const about = subject(found);
  if (!about.empty() && about != state.said) {
    result.line = !found.late.empty()      ? line_about_late(found)
                  : !found.crossed.empty() ? line_about_crossed(found)
                                           : line_about_nobody(found, world);
  }
  result.orders = orders(state, world, now, policy);
  state.said = about;
  for (auto const& order : result.orders) {
    state.ordered.insert(order.rank);
  }
  set_due(state, now, policy);
  result.next = std::move(state);
  return result;
}

}  // namespace cxxrun::rendezvous
