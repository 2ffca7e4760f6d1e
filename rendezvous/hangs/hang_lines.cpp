#include "rendezvous/hangs/hang_lines.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/core/rank_name.hpp"
#include "src/base/core/text.hpp"
#include "src/base/worker/page_view.hpp"

namespace cxxrun::rendezvous {
namespace {

using Seen = HangState::Seen;

std::string name(Seen const& seen) {
  return rank_name(seen.last.rank, seen.host);
}

/// Of the first kMostNamed.
template <class Each, class Name>
std::string names(std::vector<Each> const& many, Name const& name_of) {
  std::vector<std::string> all;
  std::transform(many.begin(), many.end(), std::back_inserter(all), name_of);
  return join_first(kMostNamed, std::move(all));
}

/// PyTorch's numbers of a group's collectives mean nothing to people.
std::string in_what(HangFinding const& found) {
  if (found.group != kDefaultGroup) {
    return "a collective of ranks " + names(found.members, [](std::uint32_t rank) { return std::to_string(rank); });
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

std::string last_seen(Standstill const& last) {
  if (last.entered == 0) {
    return "has entered no collective yet";
  }
  auto const what = worker::number_operation(last.entered, last.what, last.count);
  bool const is_done = last.what == worker::kBegunOperation ? last.count == worker::kIsDone : !inside(last);
  bool const is_under_way = !is_done && last.what != worker::kBegunOperation;
  return (is_done ? "has done " : is_under_way ? "is in " : "has begun ") + what;
}

std::string line_about_late(HangFinding const& found) {
  auto const& first = *found.late.front().seen;
  if (found.late.size() == 1 && found.late.front().begun == found.sequence) {
    return name(first) + " is stopped in " + in_what(found) + " for " + whole_seconds(found.longest) + " that " +
           others(found.waiting.size()) + " wait in";
  }
  auto const name_of = [](HangGroup::Member const& each) { return name(*each.seen); };
  std::string text = names(found.late, name_of) + (found.late.size() == 1 ? " has" : " have") + " not entered " +
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
Seen const* usual(HangFinding const& found, std::uint32_t world) {
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
std::optional<std::pair<Seen const*, Seen const*>> unlike(HangFinding const& found, std::uint32_t world) {
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
std::string line_about_nobody(HangFinding const& found, std::uint32_t world) {
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

std::string line_about_crossed(HangFinding const& found) {
  return names(found.crossed, [](Seen const* seen) { return name(*seen); }) +
         (found.crossed.size() == 1 ? " waits" : " wait") + " for " + whole_seconds(found.longest) +
         " in one group while others wait in another: do all ranks begin the collectives of their groups in one order?";
}

/// How one of those that are late is told of in the cause.
std::string why_late(HangGroup::Member const& late, HangFinding const& found) {
  return (late.begun == found.sequence ? "was stopped in "
          : late.seen->last.halted     ? "is stopped and did not enter "
                                       : "did not enter ") +
         in_what(found) + " for " + whole_seconds(found.longest) + " that " + others(found.waiting.size()) +
         " waited in";
}

std::string why_unlike(Seen const& seen, Seen const& common, HangFinding const& found) {
  return call_of(seen) + " as collective #" + std::to_string(found.sequence) + " where most others " +
         call_of(common, "were") + ", and all waited for " + whole_seconds(found.longest);
}

}  // namespace

std::string line_about(HangFinding const& found, std::uint32_t world) {
  if (!found.late.empty()) {
    return line_about_late(found);
  }
  return found.crossed.empty() ? line_about_nobody(found, world) : line_about_crossed(found);
}

std::string subject(HangFinding const& found) {
  if (found.waiting.empty() && found.crossed.empty()) {
    return "";
  }
  std::string text = std::to_string(found.group) + " " + std::to_string(found.sequence);
  for (std::size_t i = 0; i < std::min(found.late.size(), kMostNamed); ++i) {
    text += " " + std::to_string(found.late[i].seen->last.rank);
  }
  return text;
}

std::vector<AccusedWorker> accused_by(HangFinding const& found, std::uint32_t world) {
  std::vector<AccusedWorker> all;
  for (auto const& each : found.late) {
    if (each.begun == found.late.front().begun && !found.waiting.empty()) {
      all.push_back({each.seen, why_late(each, found)});
    }
  }
  bool const all_wait = found.late.empty() && found.waiting.size() >= world;
  if (auto const* const common = all_wait ? usual(found, world) : nullptr; common != nullptr) {
    for (auto const* const seen : found.waiting) {
      if (meaning(*seen) && differ(*meaning(*common), *meaning(*seen))) {
        all.push_back({seen, why_unlike(*seen, *common, found)});
      }
    }
  }
  all.resize(std::min(all.size(), kMostNamed));
  return all;
}

}  // namespace cxxrun::rendezvous
