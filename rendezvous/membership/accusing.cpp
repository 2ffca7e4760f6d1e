#include "rendezvous/membership/accusing.hpp"

#include <algorithm>
#include <utility>

#include "src/core/text.hpp"
#include "src/core/turn.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kMostEnded = 8;  // one death ends the generation for all

/// Of one that is named: how many do, and what the first of them says.
struct Accused {
  std::size_t by = 0;
  PeerFailure::Why why = PeerFailure::Why::died;
};

/// Where a chain of words ends that begins with this one.
struct ChainEnd {
  worker::Loss last;
  bool spoke = false;  ///< that rank, too: it names nobody, or one of a circle
};

/// In groups one waits for another that waits for a third: the end of the chain keeps all of them waiting. Of a circle
/// it is whom the first names.
ChainEnd end_of_chain(AccusingState const& state, std::uint32_t world, worker::Loss const& first) {
  auto last = first;
  for (std::size_t steps = 0; steps < state.words.size(); ++steps) {
    auto const next = state.words.find(last.rank);
    if (next == state.words.end() || next->second.rank >= world) {
      return {last, next != state.words.end()};
    }
    last = next->second;
  }
  return {first, true};
}

/// Those at the ends of chains that have spoken themselves, or have not: whoever has waits for another, or lies beyond
/// a cut.
std::map<std::uint32_t, Accused> find_named(AccusingState const& state, std::uint32_t world, bool spoke) {
  std::map<std::uint32_t, Accused> named;
  for (auto const& [speaker, lost] : state.words) {
    auto const end = end_of_chain(state, world, lost);
    if (end.last.rank < world && end.spoke == spoke) {
      ++named.try_emplace(end.last.rank, Accused{0, end.last.why}).first->second.by;
    }
  }
  return named;
}

std::string sentence(Accused const& accused) {
  std::string const others = counted(accused.by, "other");
  switch (accused.why) {
    case PeerFailure::Why::timeout: return "did not arrive in time for " + others;
    case PeerFailure::Why::left: return "left while " + others + " still called";
    case PeerFailure::Why::lost: return "lost its connection to " + others;
    default: return "ended while " + others + " still called";
  }
}

/// Of those that have spoken, the one that most name: the lowest of several. Nothing: nobody in the world is named.
std::optional<AccusedOrder> most_named(AccusingState const& state, std::uint32_t world) {
  auto const named = find_named(state, world, true);
  auto const most = std::max_element(named.begin(), named.end(),
                                     [](auto const& a, auto const& b) { return a.second.by < b.second.by; });
  return most == named.end() ? std::nullopt
                             : std::optional(AccusedOrder{most->first, most->second.why, sentence(most->second)});
}

bool reached(std::optional<TimePoint> const& from, Millis time, TimePoint now) {
  return from && *from + time <= now;
}

}  // namespace

AccusingState accuse(AccusingState state, Named const& named, bool ended, TimePoint now) {
  state.words.try_emplace(named.rank, named.lost);
  state.since = state.since.value_or(now);
  if (ended) {
    state.ended = state.ended.value_or(now);
  }
  return state;
}

AccusingJudgement judge(AccusingState state, std::uint32_t world, TimePoint now) {
  AccusingJudgement result;
  auto const accused = find_named(state, world, false);
  bool const all_spoke = state.words.size() + accused.size() >= world;
  bool const settled = reached(state.since, kSpeak, now) || reached(state.ended, kOwnEnd, now);
  for (auto const& [rank, each] : accused) {
    bool const by_most = settled && 2 * each.by > world - 1;
    if ((all_spoke || by_most) && result.orders.size() < kMostEnded && state.ordered.insert(rank).second) {
      result.orders.push_back({rank, each.why, sentence(each)});
    }
  }
  result.stop = state.ended && (accused.empty() || reached(state.ended, kOwnEnd, now));
  if (!state.ended && accused.empty() && (all_spoke || settled)) {
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
