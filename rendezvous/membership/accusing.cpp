#include "rendezvous/membership/accusing.hpp"

#include <algorithm>
#include <utility>

#include "src/core/turn.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kMostEnded = 8;  // one death ends the generation for all

/// Of one that has not spoken itself: how many name it, and what the first of them says.
struct Accused {
  std::size_t by = 0;
  PeerFailure::Why why = PeerFailure::Why::died;
};

/// Whoever has spoken waits for another, or lies beyond a cut: it is not the one that keeps the others waiting. In
/// groups one waits for another that waits for a third: the end of the chain keeps all of them waiting.
std::map<std::uint32_t, Accused> find_accused(AccusingState const& state, std::uint32_t world) {
  std::map<std::uint32_t, Accused> accused;
  for (auto const& [speaker, lost] : state.words) {
    auto last = lost;
    auto next = state.words.find(last.rank);
    for (std::size_t steps = 0; next != state.words.end() && steps < state.words.size(); ++steps) {
      last = next->second;
      next = state.words.find(last.rank);
    }
    if (last.rank < world && next == state.words.end()) {
      auto& each = accused.try_emplace(last.rank, Accused{0, last.why}).first->second;
      ++each.by;
    }
  }
  return accused;
}

std::string sentence(Accused const& accused) {
  std::string const others = std::to_string(accused.by) + (accused.by == 1 ? " other" : " others");
  switch (accused.why) {
    case PeerFailure::Why::timeout: return "did not arrive in time for " + others;
    case PeerFailure::Why::left: return "left while " + others + " still called";
    case PeerFailure::Why::lost: return "lost its connection to " + others;
    default: return "ended while " + others + " still called";
  }
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
  auto const accused = find_accused(state, world);
  bool const all_spoke = state.words.size() + accused.size() >= world;
  bool const settled = reached(state.since, kSpeak, now) || reached(state.ended, kOwnEnd, now);
  for (auto const& [rank, each] : accused) {
    bool const by_most = settled && 2 * each.by > world - 1;
    if ((all_spoke || by_most) && result.orders.size() < kMostEnded && state.ordered.insert(rank).second) {
      result.orders.push_back({rank, each.why, sentence(each)});
    }
  }
  result.stop = state.ended && (accused.empty() || reached(state.ended, kOwnEnd, now));
  state.due.reset();
  if (!result.stop && !accused.empty()) {
    auto const at = [now](std::optional<TimePoint> const& from, Millis time) {
      return from && *from + time > now ? std::optional(*from + time) : std::nullopt;
    };
    state.due = earliest({at(state.since, kSpeak), at(state.ended, kOwnEnd)});
  }
  result.next = std::move(state);
  return result;
}

}  // namespace cxxrun::rendezvous
