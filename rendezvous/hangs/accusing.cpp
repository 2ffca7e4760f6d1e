#include "rendezvous/hangs/accusing.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/base/core/text.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kMostEnded = 8;  // one death ends the generation for all

/// Of one that is named: how many do, and what the first of them says.
struct Tally {
  std::size_t by = 0;
  PeerFailure::Why why = PeerFailure::Why::died;
};

/// In groups one waits for another that waits for a third: the end of the chain keeps all of them waiting. It has not
/// spoken, or names nobody, or closes a circle. `why` is of the word that names it. The ranks on the way are brought
/// next to the end, so that each is passed a few times only.
worker::Loss end_of_chain(AccusingState& state, worker::Loss const& word) {
  auto end = word;
  for (auto step = state.steps.find(end.rank); step != state.steps.end(); step = state.steps.find(end.rank)) {
    end = step->second;
  }
  for (auto rank = word.rank; rank != end.rank;) {
    rank = std::exchange(state.steps.at(rank), end).rank;
  }
  return end;
}

/// A rank speaks for the first time: the chains that ended at it go on.
void add(AccusingState& state, Named const& named, std::uint32_t world) {
  Accused chains{1, named.rank};
  if (auto const own = state.accused.extract(named.rank)) {
    chains = {own.mapped().by + 1, std::min(own.mapped().first, named.rank)};
  }
  state.to_order.erase(named.rank);
  if (named.lost.rank >= world) {
    return;
  }
  auto const end = end_of_chain(state, named.lost).rank;
  if (end == named.rank) {
    return;  // it closes a circle
  }
  state.steps.emplace(named.rank, named.lost);
  if (state.words.contains(end)) {
    return;  // whoever has spoken waits for another, or lies beyond a cut
  }
  auto const [accused, is_new] = state.accused.try_emplace(end, Accused{0, chains.first});
  accused->second = {accused->second.by + chains.by, std::min(accused->second.first, chains.first)};
  if (is_new) {
    state.to_order.insert(end);
  }
  if (2 * accused->second.by > world - 1) {
    state.by_most = end;
  }
}

std::string sentence(Tally const& tally) {
  std::string const others = counted(tally.by, "other");
  switch (tally.why) {
    case PeerFailure::Why::timeout: return "did not arrive in time for " + others;
    case PeerFailure::Why::left: return "left while " + others + " still called";
    case PeerFailure::Why::lost: return "lost its connection to " + others;
    default: return "ended while " + others + " still called";
  }
}

/// Where all that are named have spoken, the one that most name: the lowest of several. Of a circle it is whom the
/// first names. Nothing: nobody in the world is named.
std::optional<AccusedOrder> most_named(AccusingState& state, std::uint32_t world) {
  std::map<std::uint32_t, Tally> named;
  for (auto const& [speaker, lost] : state.words) {
    if (lost.rank < world) {
      auto const end = end_of_chain(state, lost);
      auto const& last = state.words.at(end.rank).rank < world ? lost : end;
      ++named.try_emplace(last.rank, Tally{0, last.why}).first->second.by;
    }
  }
  auto const most = std::max_element(named.begin(), named.end(),
                                     [](auto const& a, auto const& b) { return a.second.by < b.second.by; });
  return most == named.end() ? std::nullopt
                             : std::optional(AccusedOrder{most->first, most->second.why, sentence(most->second)});
}

/// Who is to be ended now, of those that have not been ordered yet.
std::vector<std::uint32_t> find_due(AccusingState const& state, bool all_spoke, bool settled) {
  if (all_spoke) {
    auto const some = std::min(state.to_order.size(), kMostEnded);
    return {state.to_order.begin(), std::next(state.to_order.begin(), static_cast<std::ptrdiff_t>(some))};
  }
  bool const most = settled && state.by_most && state.to_order.contains(*state.by_most);
  return most ? std::vector{*state.by_most} : std::vector<std::uint32_t>{};
}

bool reached(std::optional<TimePoint> const& from, Millis time, TimePoint now) {
  return from && *from + time <= now;
}

}  // namespace

AccusingState accuse(AccusingState state, Named const& named, bool ended, std::uint32_t world, TimePoint now) {
  if (state.words.try_emplace(named.rank, named.lost).second) {
    add(state, named, world);
  }
  state.since = state.since.value_or(now);
  if (ended) {
    state.ended = state.ended.value_or(now);
  }
  return state;
}

AccusingState order_again(AccusingState state, std::uint32_t first, std::uint32_t count) {
  for (auto it = state.accused.lower_bound(first); it != state.accused.end() && it->first - first < count; ++it) {
    state.to_order.insert(it->first);
  }
  return state;
}

AccusingJudgement judge(AccusingState state, std::uint32_t world, TimePoint now) {
  AccusingJudgement result;
  bool const all_spoke = state.words.size() + state.accused.size() >= world;
  bool const settled = reached(state.since, kSpeak, now) || reached(state.ended, kOwnEnd, now);
  for (auto const rank : find_due(state, all_spoke, settled)) {
    auto const& accused = state.accused.at(rank);
    Tally const tally{accused.by, end_of_chain(state, state.words.at(accused.first)).why};
    result.orders.push_back({rank, tally.why, sentence(tally)});
    state.to_order.erase(rank);
  }
  result.stop = state.ended && (state.accused.empty() || reached(state.ended, kOwnEnd, now));
  if (!state.ended && state.accused.empty() && (all_spoke || settled)) {
    result.blamed = most_named(state, world);
  }
  state.due.reset();
  if (!result.stop && !result.blamed) {
    auto const at = [now](std::optional<TimePoint> const& from, Millis time) {
      return from && *from + time > now ? std::optional(*from + time) : std::nullopt;
    };
    state.due = earliest({at(state.since, kSpeak), at(state.ended, kOwnEnd)});
  }
  result.next = std::move(state);
  return result;
}

}  // namespace cxxrun::rendezvous
