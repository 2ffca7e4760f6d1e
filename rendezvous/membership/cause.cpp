#include "rendezvous/membership/cause.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "rendezvous/history/restarts.hpp"
#include "rendezvous/membership/excluding.hpp"
#include "rendezvous/membership/roster.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

/// Which failure is the cause: the first of these that any worker has.
enum class Weight { not_started, hung, killed, says_why, signalled, exited, waited, lost_peer, told_to_end };

Weight weight(WorkerExit const& exit) {
  if (exit.status.kind == ExitStatus::Kind::not_started) {
    return Weight::not_started;
  }
  if (!exit.hung.empty()) {
    return Weight::hung;  // workers that waited for it die of its death, and may be reported first
  }
  switch (exit.role) {
    case Role::culprit: break;
    case Role::waited: return Weight::waited;
    case Role::lost_peer: return Weight::lost_peer;
    case Role::told_to_end: return Weight::told_to_end;
  }
  bool const signalled = exit.status.kind == ExitStatus::Kind::signalled;
  if (signalled && exit.status.value == SIGKILL) {
    return Weight::killed;  // not caused by another rank, while an exception may be caused by this death
  }
  return !exit.told.empty() ? Weight::says_why : signalled ? Weight::signalled : Weight::exited;
}

/// Our stop does not explain this exit: by its own last words, or because victims blame it, the worker was failing
/// before the stop came. Or victims blame it, and it has ended with 0.
bool was_overtaken(WorkerExit const& exit, bool blamed) {
  bool const fails = exit.ours && !exit.status.ok() && (blamed || !exit.told.empty()) && exit.role == Role::culprit;
  return fails || (blamed && exit.status.ok());
}

bool is_victim(Failure const& failure) {
  return weight(failure.exit) >= Weight::waited;
}

template <class Predicate>
std::vector<Failure> exits_that(Group const& group, Predicate const& holds) {
  std::vector<Failure> found;
  for (std::uint32_t group_rank = 0; group_rank < group.seats.size(); ++group_rank) {
    auto const& seat = group.seats[group_rank];
    for (auto const& exit : seat.exits) {
      if (holds(exit)) {
        found.push_back(Failure{seat.node.host, group_rank, exit});
      }
    }
  }
  return found;
}

/// How the workers ended that are not among the failures, with their numbers.
std::map<std::string, std::uint32_t> stopped_by_us(Group const& group, std::vector<Failure> const& failures) {
  std::unordered_set<std::uint32_t> failed;
  for (auto const& failure : failures) {
    if (failure.exit.ours) {
      failed.insert(failure.exit.rank);
    }
  }
  std::map<std::string, std::uint32_t> ends;
  for (auto const& seat : group.seats) {
    for (auto const& exit : seat.exits) {
      bool const signalled = exit.status.kind == ExitStatus::Kind::signalled;
      if (exit.ours && !failed.contains(exit.rank)) {
        // Without where it stood, so that equal ends are counted together.
        auto const why = exit.cause.substr(0, exit.cause.find("; "));
        ++ends[signalled ? signal_name(exit.status.value) + " by cxxrun" + (why.empty() ? "" : ": " + why)
                         : exit.status.describe() + ", asked to end by cxxrun"];
      }
    }
  }
  return ends;
}

/// "rank 2 on node1 did not time out as 3 others did; ": ranks that timed out are victims, and the rank that they
/// waited for has reported nothing. "" if that is not clear: no more have timed out than not.
std::string waited_for(Group const& group, Failure const& first) {
  constexpr std::size_t kMostNamed = 3;
  if (weight(first.exit) != Weight::waited) {
    return "";
  }
  auto const timed_out = exits_that(group, [](WorkerExit const& exit) { return exit.role == Role::waited; }).size();
  auto const others = exits_that(
      group, [](WorkerExit const& exit) { return exit.role != Role::waited && exit.role != Role::lost_peer; });
  if (others.empty() || others.size() >= timed_out) {
    return "";
  }
  std::vector<std::string> names;
  names.reserve(others.size());
  for (auto const& other : others) {
    names.push_back(rank_name(other.exit.rank, other.host));
  }
  return join_first(kMostNamed, std::move(names)) + " did not time out as " + std::to_string(timed_out) +
         " others did; ";
}

/// If all failures are victims: the workers that had ended with 0 before the stop, because that may be the reason. On
/// each node the stop explains every later end, so this compares no clocks of different hosts.
std::vector<Leaver> leavers(Group const& group, std::vector<Failure> const& failures) {
  std::vector<Leaver> found;
  if (failures.empty() || !std::all_of(failures.begin(), failures.end(), is_victim)) {
    return found;
  }
  for (auto& each : exits_that(group, [](WorkerExit const& exit) { return exit.status.ok() && !exit.ours; })) {
    found.push_back({each.exit.rank, std::move(each.host), each.exit.wall_ms});
  }
  std::stable_sort(found.begin(), found.end(), [](auto const& a, auto const& b) { return a.wall_ms < b.wall_ms; });
  return found;
}

/// "rank 0 on node1 had left with exit code 0; "; "" if none had.
std::string left_before(std::vector<Leaver> const& left) {
  constexpr std::size_t kMostNamed = 3;
  std::vector<std::string> names;
  names.reserve(left.size());
  for (auto const& each : left) {
    names.push_back(rank_name(each.rank, each.host));
  }
  return left.empty() ? "" : join_first(kMostNamed, std::move(names)) + " had left with exit code 0; ";
}

std::string describe(Failure const& failure) {
  return describe(failure.exit, failure.host);
}

Ruling conclude(State const& state, Policy const& policy, End end, int code, std::string const& line) {
  return Ruling{Ruling::Next::conclude, make_verdict(state, policy, end, code, line), {}, {}, line};
}

Ruling reform(State const& state, std::string line, std::map<std::uint32_t, std::string> unfit = {}) {
  return Ruling{
      Ruling::Next::reform, {}, after_end(state.restarts.streak, state.group.lived), std::move(unfit), std::move(line)};
}

/// Members of the last generation that were lost and are not back as new nodes.
std::vector<NodeInfo const*> lost_seats(State const& state) {
  std::set<std::string> back;
  for (auto const& [agent, node] : state.roster.present) {
    if (!state.group.seat_of.contains(agent)) {
      back.insert(node.host);
    }
  }
  std::vector<NodeInfo const*> lost;
  for (auto const& seat : state.group.seats) {
    if (seat.now == Seat::Now::lost && !back.contains(seat.node.host)) {
      lost.push_back(&seat.node);
    }
  }
  return lost;
}

bool may_lack_memory(State const& state, std::vector<NodeInfo const*> const& lost) {
  return std::any_of(lost.begin(), lost.end(),
                     [&](NodeInfo const* node) { return state.roster.perhaps_oom.contains(node_key(*node)); });
}

std::string no_restart_left(Policy const& policy) {
  if (policy.max_restarts == 0) {
    return "";
  }
  return "; no restart left" +
         (policy.restart_window == Millis{0} ? "" : " within " + seconds_text(policy.restart_window));
}

Ruling judge_failure(State const& state, Policy const& policy, TimePoint now, std::vector<Failure> const& failures) {
  Failure const& first = failures.front();
  bool const started = first.exit.status.kind != ExitStatus::Kind::not_started;
  End const end = started ? End::worker_failed : End::could_not_start;
  // If the stop overtook the cause, its code may be that of the stop.
  int const code = std::max(1, failures[first.exit.ours && failures.size() > 1 ? 1 : 0].exit.status.shell_code());
  auto const left = left_before(leavers(state.group, failures));
  std::string const line = (left.empty() ? waited_for(state.group, first) : left) + describe(first);
  auto const streak = after_failure(state.restarts.streak, state.group.lived, first.exit);
  bool const may_be_there = started ? state.restarts.begun || state.group.lived || has_spare(state)  // of another node
                                    : state.restarts.executed;
  auto const lacks = missing_dependency(first.exit);
  bool const tries_anyway = policy.max_restarts_given && !is_missed_by_package(lacks);
  if (!tries_anyway && !may_be_there && !lacks.empty()) {
    return conclude(state, policy, end, code, line + (started ? "; not restarted: " + printable(lacks) : ""));
  }
  if (auto const words = permanent_failure(first.exit); !words.empty()) {
    return conclude(state, policy, end, code, line + "; not restarted: " + printable(words));
  }
  if (!policy.max_restarts_given && streak.alike >= kAlikeEnough) {
    return conclude(state, policy, End::failed_alike, code,
                    line + "; " + std::to_string(streak.alike) + " times in a row, and no step in between");
  }
  if (!restart_left(state.restarts, now, policy)) {
    return conclude(state, policy, end, code, line + no_restart_left(policy));
  }
  return Ruling{Ruling::Next::restart, {}, streak, {}, line};
}

}  // namespace

std::string describe(WorkerExit const& exit, std::string const& host) {
  std::string const why = exit.cause.empty() ? "" : ": " + exit.cause;
  std::string const how = (exit.ours ? "was failing when it was stopped, " : "") + exit.status.describe() + why;
  return rank_name(exit.rank, host) + (exit.hung.empty() ? ": " + how : " " + exit.hung);
}

Verdict make_verdict(State const& state, Policy const& policy, End end, int code, std::string summary) {
  Verdict verdict;
  verdict.end = end;
  verdict.exit_code = code;
  verdict.summary = std::move(summary);
  verdict.generation = state.number;
  verdict.restarts = state.restarts.consumed;
  verdict.max_restarts = policy.max_restarts;
  verdict.failures = failures_of(state.group);
  verdict.left = leavers(state.group, verdict.failures);
  verdict.stopped = stopped_by_us(state.group, verdict.failures);
  verdict.killed = exits_that(state.group, [](WorkerExit const& exit) {
    return exit.ours && exit.status == ExitStatus::signalled(SIGKILL) && !exit.cause.empty();
  });
  for (auto const& [key, host] : state.roster.gone) {
    verdict.lost_nodes.push_back(host);
  }
  for (auto const& [key, line] : state.roster.unfit) {
    verdict.excluded.push_back(line);
  }
  verdict.restart_window = policy.restart_window;
  verdict.followed = state.roster.fitness.lines;
  verdict.node_faults = state.roster.fitness.faults;
  // If several were lost, this coordinator may be the one that is cut off; and memory is the job's own fault.
  if (verdict.lost_nodes.size() == 1 && !state.roster.perhaps_oom.contains(state.roster.gone.begin()->first)) {
    verdict.node_faults.push_back({verdict.lost_nodes.front(), "lost"});
  }
  return verdict;
}

Verdict told_to_end(State const& state, Policy const& policy) {
  auto const& stop = state.group.stop;
  return make_verdict(state, policy, End::stopped, 128 + stop.signal, stop.why);
}

std::vector<Failure> failures_of(Group const& group) {
  std::map<std::uint32_t, std::size_t> heard;  // rank → position among the reports
  for (std::size_t i = 0; i < group.reports.size(); ++i) {
    heard.emplace(group.reports[i].exit.rank, i);
  }
  auto all = exits_that(group, [](WorkerExit const& exit) { return !exit.status.ok() && !exit.ours; });
  // Also reports without an exit in a Stopped message: of a node that was lost before, or of a blamed rank whose
  // process goes on. And the report that began the stop, so that a stop for a failure always has a failure.
  for (auto const& report : group.reports) {
    auto const& seat = group.seats[report.group_rank];
    if (seat.now == Seat::Now::lost || all.empty() || report.exit.status.ok()) {
      all.push_back(Failure{seat.node.host, report.group_rank, report.exit});
    }
  }
  // A victim may fail first while the culprit still unwinds; then the stop may overtake the culprit.
  if (!all.empty() && std::all_of(all.begin(), all.end(), is_victim)) {
    std::unordered_set<std::uint32_t> blamed;
    for (auto const& victim : all) {
      if (victim.exit.lost) {
        blamed.insert(victim.exit.lost->rank);
      }
    }
    auto overtaken =
        exits_that(group, [&](WorkerExit const& exit) { return was_overtaken(exit, blamed.contains(exit.rank)); });
    for (auto& failure : overtaken) {
      if (failure.exit.status.ok()) {
        failure.exit.hung = "ended while others still called";
      }
      all.push_back(std::move(failure));
    }
  }
  auto const key = [&](Failure const& failure) {
    auto const it = heard.find(failure.exit.rank);
    return std::make_tuple(weight(failure.exit), it == heard.end() ? group.reports.size() : it->second,
                           failure.exit.rank);
  };
  auto const cause =
      std::min_element(all.begin(), all.end(), [&](auto const& a, auto const& b) { return key(a) < key(b); });
  if (cause != all.end()) {
    std::iter_swap(all.begin(), cause);
    std::sort(all.begin() + 1, all.end(), [](auto const& a, auto const& b) { return a.exit.rank < b.exit.rank; });
  }
  return all;
}

std::string loss_line(State const& state) {
  auto const lost = lost_seats(state);
  std::string hosts;
  for (auto const* const node : lost) {
    hosts += (hosts.empty() ? "" : ", ") + node->host;
  }
  if (hosts.empty()) {
    return "";
  }
  char const* const step = lost.size() == 1 ? "its step" : "a step of theirs";
  return "node lost: " + hosts +
         (may_lack_memory(state, lost) ? std::string(", or the kernel killed ") + step + " for memory" : "");
}

bool perhaps_out_of_memory(State const& state) {
  return may_lack_memory(state, lost_seats(state));
}

Ruling rule(State const& state, Policy const& policy, TimePoint now) {
  auto const failures = failures_of(state.group);
  bool const told = state.group.stop.kind == StopKind::user;
  bool const not_started = !failures.empty() && failures.front().exit.status.kind == ExitStatus::Kind::not_started;
  if (not_started && told) {
    return conclude(state, policy, End::could_not_start, failures.front().exit.status.shell_code(),
                    describe(failures.front()));
  }
  if (not_started) {
    auto faults = start_faults(state, policy);
    return faults.empty() ? judge_failure(state, policy, now, failures)
                          : reform(state, describe(failures.front()), std::move(faults));
  }
  if (told) {
    return conclude(state, policy, End::stopped, 128 + state.group.stop.signal, state.group.stop.why);
  }
  auto const& seats = state.group.seats;
  if (std::any_of(seats.begin(), seats.end(), [](Seat const& seat) { return seat.now == Seat::Now::lost; })) {
    return reform(state, loss_line(state));
  }
  // Nodes came or left in good health; or a coordinator was lost, and these failures followed from that.
  return failures.empty() || state.proposer.taking_over() ? reform(state, "")  // logged when the stop began
                                                          : judge_failure(state, policy, now, failures);
}

}  // namespace cxxrun::rendezvous
