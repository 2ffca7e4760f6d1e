// Every rule of docs/design/election.md broken on purpose: the simulation has to notice, and by the rule that it
// breaks (docs/design/simulation.md).
#include <iostream>

#include "tests/simulation/traces.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::simulation;  // NOLINT(google-build-using-namespace)

namespace {

constexpr char const* kAtOnce = "execute at once";
constexpr char const* kTwoDecrees = "two decrees after";

struct Case {
  Mutation mutation;
  char const* breaks;               ///< part of what the judge says
  Schedule (*by_hand)() = nullptr;  ///< its trouble; nothing: random schedules
  std::uint64_t first = 1;          ///< seed of those
  bool forged = false;              ///< with a Forger
};

constexpr std::array kCases{
    Case{Mutation::forget_promise, "breaks its promise"},
    Case{Mutation::forget_accepted, "votes twice"},
    Case{Mutation::keep_campaign, "goes on as a candidate"},
    Case{Mutation::same_member_again, "votes twice"},
    Case{Mutation::no_quorum, kTwoDecrees},
    Case{Mutation::shrink_denominator, kTwoDecrees},
    Case{Mutation::grant_without_quorum, kAtOnce},
    Case{Mutation::skip_lease_wait, kAtOnce},
    Case{Mutation::vote_silent_long, kAtOnce},
    Case{Mutation::lease_from_receipt, kAtOnce, late_answer},
    Case{Mutation::no_lease, kAtOnce},
    Case{Mutation::stalled_keeps_lease, kAtOnce},
    Case{Mutation::expiry_kills, "does not go on where it was", suspended},
    Case{Mutation::expiry_ignored, kAtOnce},
    Case{Mutation::reset_is_death, "by the pair rule beside another", firewalled},
    Case{Mutation::start_undecided, "start before it is decided"},
    Case{Mutation::ready_unasked, "is not ready"},
    Case{Mutation::fence_for_all, kTwoDecrees},
    Case{Mutation::no_beats, "although nothing has happened"},
    Case{Mutation::lost_timer, "waits without a timer"},
    Case{Mutation::count_locally, "the restart count falls"},
    Case{Mutation::decide_silently, "no cut was as long", nullptr, kOnlyCuts},
    Case{Mutation::half_at_once, "although most nodes are left", late_promise},
    Case{Mutation::watch_from_beats, "no workers run", nullptr, kOnlyDeaths},
    Case{Mutation::unguarded, "although nothing has happened", nullptr, 1, true},
    Case{Mutation::start_at_once, "before its wait is over", nullptr, kOnlyFailures},
    Case{Mutation::forget_failures, "in a row are forgotten", nullptr, kOnlyFailures},
    Case{Mutation::forget_account, "the account does not go on"},
    Case{Mutation::forget_end, "the job ends on"},
    Case{Mutation::believe_repeated, "does not name", nullptr, kOnlyDeaths},
    Case{Mutation::keep_news, "no cut was as long", nullptr, kOnlyCuts},
};
static_assert(kCases.size() == kMutations.size());

Schedule schedule_of(Case const& which, std::uint64_t seed, Mutation mutation) {
  auto schedule = which.by_hand != nullptr ? which.by_hand() : draw(seed);
  schedule.seed = seed;
  schedule.mutation = mutation;
  schedule.forged = which.forged;
  return schedule;
}

}  // namespace

TEST_CASE("mutations: a broken rule breaks an execution, and is named", "[simulation]") {
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    Case const& which = kCases[i];
    REQUIRE(which.mutation == kMutations[i].first);
    char const* const name = kMutations[i].second;
    std::uint64_t const most = which.by_hand != nullptr ? 500 : 20'000;
    std::string found;
    for (std::uint64_t seed = which.first; seed < which.first + most && found.empty(); ++seed) {
      auto const broken = Job(schedule_of(which, seed, which.mutation)).run();
      // What breaks without the mutation too proves nothing.
      if (broken.find(which.breaks) != std::string::npos &&
          Job(schedule_of(which, seed, Mutation::none)).run().empty()) {
        found = std::to_string(seed) + ": " + broken;
      }
    }
    std::cout << "| " << name << (which.by_hand != nullptr ? " | by hand, " : " | ") << found << "\n";
    CHECKED_ELSE(!found.empty()) {
      FAIL_CHECK("nobody notices " << name << " (" << which.breaks << ") in " << most << " schedules");
    }
  }
}
