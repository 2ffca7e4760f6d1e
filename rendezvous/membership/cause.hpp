// Cause: what ended a generation, and what follows. Determined last, when every member has stopped. Pure.
//
// Cost: O(N log N) for N workers, whatever failed; tests/bench/failing_bench.cpp measures it.
#pragma once

#include <map>
#include <string>

#include "rendezvous/membership/state.hpp"

namespace cxxrun::rendezvous {

/// What follows from the end of a generation.
struct Ruling {
  enum class Next {
    restart,   ///< a worker failed: form again, one restart consumed
    reform,    ///< nodes came or went: form again, no restart consumed
    conclude,  ///< the verdict stands
  };
  Next next = Next::reform;
  Verdict verdict;  ///< meaningful for conclude
  Streak streak;    ///< this end included
  /// Group ranks of nodes to exclude, and why: they cannot start the program, which runs on other nodes.
  std::map<std::uint32_t, std::string> unfit;
  std::string line;  ///< the cause in one line: "rank 3 on node1: signal 9 (SIGKILL)"
  [[nodiscard]] bool worker_failed() const {
    return next == Next::restart ||
           (next == Next::conclude && (verdict.end == End::worker_failed || verdict.end == End::failed_alike));
  }
};

/// Judges the stopped generation in `state` (phase stopping, nothing awaited).
///
/// A peer's end-of-file error often arrives before the death that caused it, so the order of arrival counts last. The
/// cause is, in this order: a program that could not be started, the user's stop, a lost node, a worker that cxxrun
/// killed because the others waited for it, one killed by a SIGKILL that is not ours, one whose last words say why, one
/// killed by another signal, a nonzero exit; then workers whose last words say that they failed because of another one:
/// they waited for it, lost it, or were told to end. Among equals it is the first report. Whether another try can help:
/// history/restarts.hpp.
[[nodiscard]] Ruling rule(State const& state, Policy const& policy, TimePoint now);

/// "rank 3 on node1: signal 9 (SIGKILL)", followed by its cause if known; or, if cxxrun killed it, "rank 3 on node1 did
/// not enter …".
[[nodiscard]] std::string describe(WorkerExit const& exit, std::string const& host);

/// A verdict over the state's last generation, with its failures and lost nodes.
[[nodiscard]] Verdict make_verdict(State const& state, Policy const& policy, End end, int code, std::string summary);

/// The verdict of a run that its user told to end.
[[nodiscard]] Verdict told_to_end(State const& state, Policy const& policy);

/// "node lost: node1, node3": members of the last generation that were lost and are not back as new nodes; "": none.
/// With a clause that the kernel may have killed their steps for memory, if that is possible.
[[nodiscard]] std::string loss_line(State const& state);
/// Whether that is possible for one of them.
[[nodiscard]] bool perhaps_out_of_memory(State const& state);

/// All failures of the generation, the cause first. Exits that our own stop explains are left out; but if only victims
/// would be left, those that were failing before the stop are added.
[[nodiscard]] std::vector<Failure> failures_of(Group const& group);

}  // namespace cxxrun::rendezvous
