#include "rendezvous/hangs/blame.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "src/base/core/text.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr std::size_t kMostKilled = 8;  // one death ends the generation for all

/// How many ranks blame one, and the reason in the first report.
struct Tally {
  std::size_t reporters = 0;
  PeerFailure::Why reason = PeerFailure::Why::died;
};

/// Where the chain that begins with `report` ends: at a rank that has not reported, that blames none, or whose report
/// closes a circle. The reason is that of the last report. Compresses the path, so that later walks are short.
worker::Loss end_of_chain(BlameState& state, worker::Loss const& report) {
  auto end = report;
  for (auto next = state.chains.find(end.rank); next != state.chains.end(); next = state.chains.find(end.rank)) {
    end = next->second;
  }
  for (auto rank = report.rank; rank != end.rank;) {
    rank = std::exchange(state.chains.at(rank), end).rank;
  }
  return end;
}

/// The first report of a rank. Chains that ended at this rank now go on to the end of its own.
void extend_chains(BlameState& state, Named const& report, std::uint32_t world) {
  BlamedRank moved{1, report.rank};
  if (auto const own = state.blamed.extract(report.rank)) {
    moved = {own.mapped().reporters + 1, std::min(own.mapped().lowest, report.rank)};
  }
  state.to_kill.erase(report.rank);
  if (report.lost.rank >= world) {
    return;
  }
  auto const end = end_of_chain(state, report.lost).rank;
  if (end == report.rank) {
    return;  // a circle
  }
  state.chains.emplace(report.rank, report.lost);
  if (state.reports.contains(end)) {
    return;  // not to blame: it waits for another rank, or is beyond a network cut
  }
  auto const [blamed, is_new] = state.blamed.try_emplace(end, BlamedRank{0, moved.lowest});
  blamed->second = {blamed->second.reporters + moved.reporters, std::min(blamed->second.lowest, moved.lowest)};
  if (is_new) {
    state.to_kill.insert(end);
  }
  if (2 * blamed->second.reporters > world - 1) {
    state.by_majority = end;
  }
}

std::string sentence(Tally const& tally) {
  std::string const others = counted(tally.reporters, "other");
  switch (tally.reason) {
    case PeerFailure::Why::timeout: return "did not arrive in time for " + others;
    case PeerFailure::Why::left: return "left while " + others + " still called";
    case PeerFailure::Why::lost: return "lost its connection to " + others;
    default: return "ended while " + others + " still called";
  }
}

/// For the case that every blamed rank has reported: the one that most others blame, the lowest of several. In a circle
/// each report counts for the rank that it names itself. Nothing: no rank of the world is blamed.
std::optional<BlameOrder> find_most_blamed(BlameState& state, std::uint32_t world) {
  std::map<std::uint32_t, Tally> tallies;
  for (auto const& [reporter, lost] : state.reports) {
    if (lost.rank < world) {
      auto const end = end_of_chain(state, lost);
      auto const& last = state.reports.at(end.rank).rank < world ? lost : end;
      ++tallies.try_emplace(last.rank, Tally{0, last.why}).first->second.reporters;
    }
  }
  auto const most = std::max_element(tallies.begin(), tallies.end(), [](auto const& a, auto const& b) {
    return a.second.reporters < b.second.reporters;
  });
  return most == tallies.end() ? std::nullopt
                               : std::optional(BlameOrder{most->first, most->second.reason, sentence(most->second)});
}

/// The ranks to kill now, of those without an order.
std::vector<std::uint32_t> find_due(BlameState const& state, bool all_known, bool window_over) {
  if (all_known) {
    auto const some = std::min(state.to_kill.size(), kMostKilled);
    return {state.to_kill.begin(), std::next(state.to_kill.begin(), static_cast<std::ptrdiff_t>(some))};
  }
  bool const most = window_over && state.by_majority && state.to_kill.contains(*state.by_majority);
  return most ? std::vector{*state.by_majority} : std::vector<std::uint32_t>{};
}

bool has_passed(std::optional<TimePoint> const& from, Millis time, TimePoint now) {
  return from && *from + time <= now;
}

}  // namespace

void add_report(BlameState& state, Named const& report, bool ended, std::uint32_t world, TimePoint now) {
  if (state.reports.try_emplace(report.rank, report.lost).second) {
    extend_chains(state, report, world);
  }
  state.first_report = state.first_report.value_or(now);
  if (ended) {
    state.first_exit = state.first_exit.value_or(now);
  }
}

void order_again(BlameState& state, std::uint32_t first, std::uint32_t count) {
  for (auto it = state.blamed.lower_bound(first); it != state.blamed.end() && it->first - first < count; ++it) {
    state.to_kill.insert(it->first);
  }
}

BlameJudgement judge_blame(BlameState& state, std::uint32_t world, TimePoint now) {
  BlameJudgement result;
  bool const all_known = state.reports.size() + state.blamed.size() >= world;  // each rank has reported or is blamed
  bool const window_over =
      has_passed(state.first_report, kReportWindow, now) || has_passed(state.first_exit, kExitWindow, now);
  for (auto const rank : find_due(state, all_known, window_over)) {
    assert(!state.reports.contains(rank));
    auto const& blamed = state.blamed.at(rank);
    Tally const tally{blamed.reporters, end_of_chain(state, state.reports.at(blamed.lowest)).why};
    result.orders.push_back({rank, tally.reason, sentence(tally)});
    state.to_kill.erase(rank);
  }
  result.stop = state.first_exit && (state.blamed.empty() || has_passed(state.first_exit, kExitWindow, now));
  if (!state.first_exit && state.blamed.empty() && (all_known || window_over)) {
    result.most_blamed = find_most_blamed(state, world);
  }
  state.due.reset();
  if (!result.stop && !result.most_blamed) {
    auto const at = [now](std::optional<TimePoint> const& from, Millis time) {
      return from && *from + time > now ? std::optional(*from + time) : std::nullopt;
    };
    state.due = earliest({at(state.first_report, kReportWindow), at(state.first_exit, kExitWindow)});
  }
  return result;
}

}  // namespace cxxrun::rendezvous
