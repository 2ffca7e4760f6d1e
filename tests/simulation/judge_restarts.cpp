// The judge of restarts: how long they wait, and that nobody forgets how many failures there were.
#include <algorithm>

#include "rendezvous/history/restarts.hpp"
#include "tests/simulation/job.hpp"
#include "tests/simulation/judge.hpp"

namespace cxxrun::simulation {

namespace rdzv = cxxrun::rendezvous;

void Judge::note_idle() {
  bool const idle =
      std::none_of(job_.nodes.begin(), job_.nodes.end(), [](auto const& node) { return node->executing(); });
  if (idle && !idle_) {
    idle_since_ = job_.world.now();
  }
  idle_ = idle;
}

/// The first workers of a generation begin. A clock may be a thousandth wrong.
void Judge::restarted(rdzv::Generation const& generation) {
  bool const after_failure = generation.restarts > restarts_begun_;
  restarts_begun_ = std::max(restarts_begun_, generation.restarts);
  Micros const waited = job_.world.now() - idle_since_;
  Micros const delay = micros(rdzv::delay_after(generation.decree.streak, job_.schedule.policy));
  if (after_failure && waited < delay - delay / 200) {
    job_.world.violated("generation " + std::to_string(generation.number) + " starts " + std::to_string(waited / 1000) +
                        " ms after the failure, before its wait is over");
  }
}

/// Whoever coordinates goes on counting, unless workers of the generation before have run.
void Judge::counted(rdzv::Decree const& decree) {
  auto const& streak = decree.streak;
  auto const before = std::find_if(decrees_.begin(), decrees_.end(),
                                   [&](auto const& entry) { return entry.second.number == decree.after; });
  bool const waited = before != decrees_.end() && !generations_.contains(decree.after);
  if (waited && (streak.failures < before->second.streak.failures || streak.alike < before->second.streak.alike)) {
    job_.world.violated("the failures in a row are forgotten at generation " + std::to_string(decree.number));
  }
  if (!job_.schedule.policy.max_restarts_given && streak.alike >= rdzv::kAlikeEnough) {
    job_.world.violated("generation " + std::to_string(decree.number) + " follows three failures that look the same");
  }
  if (before != decrees_.end()) {
    accounted(before->second, decree);
  }
}

/// No part of the account shrinks, whoever coordinates, and all of them are no more than the time there was. A clock
/// may be a thousandth wrong.
void Judge::accounted(rdzv::Decree const& before, rdzv::Decree const& decree) {
  auto const& then = before.history.account;
  auto const& now = decree.history.account;
  bool shrinks = false;
  for (auto const spent : rdzv::kAllSpent) {
    shrinks = shrinks || now[spent] < then[spent];
  }
  Micros const all = job_.world.now();
  if (shrinks || micros(now.total()) > all + all / 200 + 1000) {
    job_.world.violated("the account does not go on at generation " + std::to_string(decree.number) + ": " +
                        std::to_string(then.total().count()) + " ms, then " + std::to_string(now.total().count()) +
                        " ms");
  }
}

}  // namespace cxxrun::simulation
