#include "rendezvous/hangs/hang_detector.hpp"

#include <chrono>
#include <iterator>
#include <utility>

#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"
#include "src/base/worker/page_view.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Millis kLeastPause{50};
constexpr Millis kMostPause{1000};
/// Ranks that a line names, the rest is counted; and ranks that are killed, for one death ends the generation for all.
constexpr std::size_t kMostNamed = 8;
/// The generation's first Communicator, with all ranks of the world. PyTorch calls it the default group.
constexpr std::uint64_t kDefaultGroup = 0;

Millis still_for(StalledRank const& rank, TimePoint now) {
  return std::chrono::duration_cast<Millis>(now - rank.since);
}

/// It has begun a collective of the default group and has not completed it.
bool inside(Standstill const& figures) {
  return figures.entered > figures.done;
}

/// Of PyTorch's other groups it is unknown whether a rank is inside, except that an idle one is not.
bool inside(Standstill const& figures, std::uint64_t group) {
  return group == kDefaultGroup ? inside(figures) : !figures.idle;
}

/// What its agent compares before it kills the rank.
std::uint64_t moves_of(Standstill const& figures) {
  return worker::begun_in_all(figures.entered, figures.groups);
}

// ---- groups: which ranks may be waiting for another rank ------------------------------------------------------
//
// PyTorch counts what a rank has begun in each of its groups, and rarely tells what is completed. So a rank that is
// behind in one group may be waiting in another, for a rank that is behind there. Only a rank that waits for none is to
// blame.
//
// Cost: O(G log G) to build, where G is the number of groups of all stalled ranks; O(log G) for each question and
// group.

struct HangGroup {
  struct Member {
    StalledRank const* rank = nullptr;
    std::uint64_t begun = 0;  ///< collectives of this group
  };
  std::vector<Member> members;       ///< those that have reported this group, in the order of ranks
  std::vector<std::uint64_t> still;  ///< what the members that have not moved have begun, sorted
};

using Member = HangGroup::Member;

/// The default group first.
std::vector<worker::GroupCount> groups_of(Standstill const& figures, std::uint32_t world) {
  std::vector<worker::GroupCount> all{{kDefaultGroup, figures.entered, world}};
  all.insert(all.end(), figures.groups.begin(), figures.groups.end());
  return all;
}

class HangGroups {
 public:
  /// `still`: a rank that has not moved since then counts as standing still. Keeps pointers into `state`.
  HangGroups(HangState const& state, std::uint32_t world, TimePoint still)
      : groups_{{kDefaultGroup, {}}}, world_(world) {
    for (auto const& [rank, stalled] : state.ranks) {
      for (auto const& each : groups_of(stalled.last, world)) {
        auto& group = groups_[each.id];
        group.members.push_back({&stalled, each.begun});
        if (stalled.since <= still) {
          group.still.push_back(each.begun);
        }
      }
    }
    for (auto& [id, group] : groups_) {
      std::sort(group.still.begin(), group.still.end());
    }
  }

  /// The default group is the first.
  [[nodiscard]] std::map<std::uint64_t, HangGroup> const& all() const { return groups_; }

  /// Whether the rank may be waiting for another one in a group in which it has begun anything: not all members stand
  /// still with at least as many begun there. `judged_by`: the group in which it is behind. If that is the default
  /// group, whether it is inside is known, and need not be asked here.
  [[nodiscard]] bool may_wait(Standstill const& figures, std::uint64_t judged_by) const {
    auto const misses_some = [&](worker::GroupCount const& each) {
      auto const& still = groups_.at(each.id).still;
      auto const there = still.end() - std::lower_bound(still.begin(), still.end(), each.begun);
      bool const shows = each.id == kDefaultGroup && judged_by == kDefaultGroup;
      return !shows && each.begun > 0 && static_cast<std::uint64_t>(there) < each.size;
    };
    auto const all = groups_of(figures, world_);
    return !figures.idle && std::any_of(all.begin(), all.end(), misses_some);
  }

  /// All ranks stand still, and this one has begun less than others in one of its groups.
  [[nodiscard]] bool is_behind_where_all_stand(Standstill const& figures) const {
    auto const is_behind = [this](worker::GroupCount const& each) {
      auto const& still = groups_.at(each.id).still;
      return !still.empty() && still.back() > each.begun;
    };
    auto const all = groups_of(figures, world_);
    return groups_.at(kDefaultGroup).still.size() == world_ && std::any_of(all.begin(), all.end(), is_behind);
  }

 private:
  std::map<std::uint64_t, HangGroup> groups_;
  std::uint32_t world_;
};

// ---- finding: the collective that ranks wait in, and the ranks that are late ----------------------------------

/// Keeps pointers into the HangState that it was made from.
struct HangFinding {
  std::uint64_t group = kDefaultGroup;
  std::vector<std::uint32_t> members;       ///< the ranks that have reported this group
  std::vector<StalledRank const*> waiting;  ///< in the newest collective in which a rank has waited for the limit
  std::vector<Member> late;                 ///< not in it, or stopped in it; the furthest behind first
  std::vector<StalledRank const*> crossed;  ///< none is late, and these wait for each other in different groups
  std::uint64_t sequence = 0;               ///< of that collective; 0: no rank waits
  Millis longest{0};                        ///< longest wait of these ranks
};

HangFinding find_in(std::uint64_t group, HangGroups const& groups, TimePoint now, Millis limit, Millis blur) {
  HangFinding found;
  found.group = group;
  auto const& members = groups.all().at(group).members;
  for (auto const& [rank, begun] : members) {
    found.members.push_back(rank->last.rank);
    if (inside(rank->last, group) && !rank->last.halted && still_for(*rank, now) >= limit) {
      found.sequence = std::max(found.sequence, begun);
    }
  }
  for (auto const& [rank, begun] : members) {
    if (found.sequence == 0 || still_for(*rank, now) < limit - blur) {
      continue;
    }
    bool const here = inside(rank->last, group) && begun == found.sequence;
    if (here && !rank->last.halted) {
      found.waiting.push_back(rank);
      found.longest = std::max(found.longest, still_for(*rank, now));
    } else if ((begun < found.sequence || here) && (rank->last.halted || !groups.may_wait(rank->last, group))) {
      found.late.push_back({rank, begun});
    }
  }
  std::stable_sort(found.late.begin(), found.late.end(),
                   [](Member const& a, Member const& b) { return a.begun < b.begun; });
  // A rank inside an older collective waits for the ranks that are even further behind.
  auto const furthest = found.late.empty() ? 0 : found.late.front().begun;
  std::erase_if(found.late, [&](Member const& each) {
    return inside(each.rank->last, group) && !each.rank->last.halted && each.begun > furthest;
  });
  return found;
}

/// Looks in the default group. If no rank is late there, or only stopped, what the ranks have begun there may be
/// completed long ago: then it takes the first other group in which a rank is late. A rank waits if it has stood still
/// for `limit`; the others count with `blur` less.
HangFinding find_hang(HangState const& state, std::uint32_t world, TimePoint now, Millis limit, Millis blur) {
  HangGroups const groups(state, world, now - (limit - blur));
  auto found = find_in(kDefaultGroup, groups, now, limit, blur);
  if (groups.all().size() == 1 || (!found.late.empty() && found.late.front().begun < found.sequence)) {
    return found;
  }
  for (auto each = std::next(groups.all().begin()); each != groups.all().end(); ++each) {
    if (auto in_group = find_in(each->first, groups, now, limit, blur); !in_group.late.empty()) {
      return in_group;
    }
  }
  for (auto const& [rank, stalled] : state.ranks) {
    if (found.late.empty() && still_for(stalled, now) >= limit && groups.is_behind_where_all_stand(stalled.last)) {
      found.crossed.push_back(&stalled);
      found.longest = std::max(found.longest, still_for(stalled, now));
    }
  }
  return found;
}

// ---- lines: a finding as text, for the log and as the cause of a worker's death -------------------------------

std::string name(StalledRank const& rank) {
  return rank_name(rank.last.rank, rank.host);
}

/// The first kMostNamed by name.
template <class Each, class Name>
std::string names(std::vector<Each> const& many, Name const& name_of) {
  return join_first(kMostNamed, list_of(many, name_of));
}

/// Users do not know PyTorch's numbers of a group's collectives, so these are left out.
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
  return counted(number, "other");
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
  auto const& first = *found.late.front().rank;
  if (found.late.size() == 1 && found.late.front().begun == found.sequence) {
    return name(first) + " is stopped in " + in_what(found) + " for " + whole_seconds(found.longest) + " that " +
           others(found.waiting.size()) + " wait in";
  }
  auto const name_of = [](Member const& each) { return name(*each.rank); };
  std::string text = names(found.late, name_of) + (found.late.size() == 1 ? " has" : " have") + " not entered " +
                     in_what(found) + " for " + whole_seconds(found.longest) + " that " + others(found.waiting.size()) +
                     " wait in";
  if (found.group == kDefaultGroup) {
    text += (found.late.size() == 1 ? "; it " : "; " + name(first) + " ") + last_seen(first.last);
  }
  return first.last.halted ? text + ", and its process is stopped" : text;
}

/// What a rank has called: the kind and, where all ranks must pass as many, the number of elements; 0: unknown.
using Call = std::pair<comm::Kind, std::uint64_t>;

std::optional<Call> call_of(StalledRank const& rank) {
  if (worker::is_in_backward(rank.last.what, rank.last.count)) {
    return Call{comm::Kind::all_reduce, 0};
  }
  if (rank.last.what == worker::kUnknownOperation || rank.last.what == worker::kBegunOperation) {
    return std::nullopt;
  }
  auto const kind = static_cast<comm::Kind>(rank.last.what & 0xffU);
  bool const as_many = kind == comm::Kind::all_reduce || kind == comm::Kind::broadcast;
  return Call{kind, as_many ? rank.last.count : 0};
}

bool differ(Call const& one, Call const& other) {
  return one.first != other.first || (one.second != 0 && other.second != 0 && one.second != other.second);
}

/// A rank whose call more than half of the world has made; nullptr: there is no such call.
StalledRank const* usual(HangFinding const& found, std::uint32_t world) {
  for (auto const* const each : found.waiting) {
    auto const mine = call_of(*each);
    auto const alike = std::count_if(found.waiting.begin(), found.waiting.end(), [&mine](StalledRank const* other) {
      auto const theirs = call_of(*other);
      return mine && theirs && !differ(*mine, *theirs);
    });
    if (static_cast<std::uint32_t>(alike) > world / 2) {
      return each;
    }
  }
  return nullptr;
}

/// Two ranks that wait in one collective with different calls. The first has made the usual call, if there is one.
std::optional<std::pair<StalledRank const*, StalledRank const*>> unlike(HangFinding const& found, std::uint32_t world) {
  auto const* const most = usual(found, world);
  auto const* const first = most != nullptr ? most : found.waiting.front();
  for (auto const* const other : found.waiting) {
    if (call_of(*first) && call_of(*other) && differ(*call_of(*first), *call_of(*other))) {
      return std::pair{first, other};
    }
  }
  return std::nullopt;
}

std::string call_text(StalledRank const& rank, char const* was = "was") {
  return worker::is_in_backward(rank.last.what, rank.last.count)
             ? was + std::string(" in a backward pass")
             : "called " + worker::describe_operation(rank.last.what, rank.last.count);
}

/// For the case that no rank is late. "" if all may have completed what they have begun, and so may not wait at all.
std::string line_without_late(HangFinding const& found, std::uint32_t world) {
  auto const number = std::to_string(found.waiting.size());
  auto const time = " for " + whole_seconds(found.longest);
  if (auto const two = unlike(found, world)) {
    return "ranks wait in collective #" + std::to_string(found.sequence) + time +
           " with different calls: " + name(*two->first) + " " + call_text(*two->first) + "; " + name(*two->second) +
           " " + call_text(*two->second);
  }
  if (std::all_of(found.waiting.begin(), found.waiting.end(),
                  [](StalledRank const* rank) { return rank->last.what == worker::kBegunOperation; })) {
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
  return names(found.crossed, [](StalledRank const* rank) { return name(*rank); }) +
         (found.crossed.size() == 1 ? " waits" : " wait") + " for " + whole_seconds(found.longest) +
         " in one group while others wait in another: do all ranks begin the collectives of their groups in the same "
         "order?";
}

/// For the log; "": there is nothing to say.
std::string line_about(HangFinding const& found, std::uint32_t world) {
  if (!found.late.empty()) {
    return line_about_late(found);
  }
  return found.crossed.empty() ? line_without_late(found, world) : line_about_crossed(found);
}

/// What a line is about, so that it is said once; "": nothing is wrong.
std::string subject(HangFinding const& found) {
  if (found.waiting.empty() && found.crossed.empty()) {
    return "";
  }
  std::string text = std::to_string(found.group) + " " + std::to_string(found.sequence);
  for (std::size_t i = 0; i < std::min(found.late.size(), kMostNamed); ++i) {
    text += " " + std::to_string(found.late[i].rank->last.rank);
  }
  return text;
}

/// The cause of death of a rank that is late.
std::string why_late(Member const& late, HangFinding const& found) {
  return (late.begun == found.sequence ? "was stopped in "
          : late.rank->last.halted     ? "is stopped and did not enter "
                                       : "did not enter ") +
         in_what(found) + " for " + whole_seconds(found.longest) + " that " + others(found.waiting.size()) +
         " waited in";
}

std::string why_unlike(StalledRank const& rank, StalledRank const& common, HangFinding const& found) {
  return call_text(rank) + " as collective #" + std::to_string(found.sequence) + " where most others " +
         call_text(common, "were") + ", and all waited for " + whole_seconds(found.longest);
}

// ---- judgement: which ranks are killed ------------------------------------------------------------------------

struct BlamedWorker {
  StalledRank const* rank = nullptr;
  std::string why;
};

/// Of the late ranks those that are furthest behind. If none is late and the whole world waits: those whose call
/// differs from that of more than half of the world. At most kMostNamed.
std::vector<BlamedWorker> blamed_for(HangFinding const& found, std::uint32_t world) {
  std::vector<BlamedWorker> all;
  for (auto const& each : found.late) {
    if (each.begun == found.late.front().begun && !found.waiting.empty()) {
      all.push_back({each.rank, why_late(each, found)});
    }
  }
  bool const all_wait = found.late.empty() && found.waiting.size() >= world;
  if (auto const* const common = all_wait ? usual(found, world) : nullptr; common != nullptr) {
    for (auto const* const rank : found.waiting) {
      if (call_of(*rank) && differ(*call_of(*common), *call_of(*rank))) {
        all.push_back({rank, why_unlike(*rank, *common, found)});
      }
    }
  }
  all.resize(std::min(all.size(), kMostNamed));
  return all;
}

/// `warned`: the finding after the time of the warning.
std::vector<HangOrder> orders(HangState const& state, std::uint32_t world, TimePoint now, HangPolicy const& policy,
                              HangFinding const& warned) {
  std::vector<HangOrder> all;
  if (policy.timeout <= Millis{0}) {
    return all;
  }
  bool const at_once = policy.timeout == policy.warning();
  auto const blur = policy.blur(policy.timeout);
  for (auto& [rank, why] : blamed_for(at_once ? warned : find_hang(state, world, now, policy.timeout, blur), world)) {
    if (!state.ordered.contains(rank->last.rank)) {
      all.push_back({rank->last.rank, moves_of(rank->last), std::move(why)});
    }
  }
  return all;
}

/// Only while a stalled rank may be inside a collective can anything be wrong.
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

void on_standstills(HangState& state, std::string const& host, std::vector<Standstill> const& reported, TimePoint now,
                    HangPolicy const& policy) {
  for (auto const& each : reported) {
    auto const before = state.ranks.find(each.rank);
    bool const moves = each.still <= Millis{0};
    if (before != state.ranks.end() && (moves || moves_of(before->second.last) != moves_of(each))) {
      state.ordered.erase(each.rank);  // it has moved
    }
    if (moves) {
      state.ranks.erase(each.rank);
    } else {
      state.ranks.insert_or_assign(each.rank, StalledRank{each, host, now - each.still});
    }
  }
  set_due(state, now, policy);
}

HangJudgement judge_hangs(HangState& state, std::uint32_t world, TimePoint now, HangPolicy const& policy) {
  HangJudgement result;
  HangFinding const found = find_hang(state, world, now, policy.warning(), policy.blur(policy.warning()));
  std::string const about = subject(found);
  if (!about.empty() && about != state.said) {
    result.line = line_about(found, world);
  }
  result.orders = orders(state, world, now, policy, found);
  state.said = about;
  for (auto const& order : result.orders) {
    state.ordered.insert(order.rank);
  }
  set_due(state, now, policy);
  return result;
}

}  // namespace cxxrun::rendezvous
