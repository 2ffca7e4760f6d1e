// What went wrong in drafts of the election (docs/design/election.md, F1 to F20 and F22), each as a job with its
// trouble by hand. With the rule in force nothing breaks; where the simulation has the rule as a mutation, without it
// something does.
#include "tests/simulation/traces.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::simulation;  // NOLINT(google-build-using-namespace)

namespace {

/// Cuts that part coordinator and candidates while decrees are voted on.
std::vector<Fault> split_votes() {
  return {{2 * kT, Trouble::cut_in_two, 3 * kT, {}},
          {6 * kT, Trouble::agent_dies, 0, {}},
          {6 * kT + 100'000, Trouble::cut_off, 2 * kT, {}}};
}

}  // namespace

TEST_CASE("F1, F5, F6: one promise a ballot, candidates give way, a split vote ends", "[simulation]") {
  CHECK(play(job_of(3, split_votes())) == "");
  CHECK(play(job_of(4, split_votes())) == "");
}

TEST_CASE("F2, F8: the dead stay in the denominator, and nobody grants without a quorum", "[simulation]") {
  auto const job = job_of(3, {{2 * kT, Trouble::cut_in_two, 4 * kT, {}}, {5 * kT, Trouble::agent_dies, 0, {}}});
  CHECK(play(job) == "");
  CHECK(play(job, Mutation::shrink_denominator) != "");
  CHECK(play(job, Mutation::no_quorum) != "");
}

TEST_CASE("F3, F9: the fence is claimed before proposing, and half does not suffice to keep", "[simulation]") {
  for (std::uint32_t const nodes : {2U, 4U}) {
    auto job = job_of(nodes, {{2 * kT, Trouble::cut_in_two, 6 * kT, {}}});
    job.policy.tie = job.agent.tie = rendezvous::Tie::fence;
    CHECK(play(job) == "");
    CHECK(play(job, Mutation::fence_for_all) != "");
  }
}

TEST_CASE("F4: what was accepted is proposed again", "[simulation]") {
  CHECK(play(job_of(4, {{2 * kT, Trouble::agent_dies, 0, {}}, {2 * kT + 60'000, Trouble::cut_in_two, 2 * kT, {}}})) ==
        "");
}

TEST_CASE("F7: leases count from send times", "[simulation]") {
  CHECK(play(late_answer()) == "");
  CHECK_THAT(play(late_answer(), Mutation::lease_from_receipt), Catch::Matchers::Contains("execute at once"));
}

TEST_CASE("F10: a suspended process does not renew its own lease", "[simulation]") {
  auto const job =
      job_of(3, {{2 * kT, Trouble::cut_off, 5 * kT, {}}, {2 * kT + 300'000, Trouble::host_freezes, 3 * kT, {}}});
  CHECK(play(job) == "");
}

TEST_CASE("F11: a reset or a refusal is no death", "[simulation]") {
  CHECK(play(job_of(2, {{2 * kT, Trouble::connections_die, 0, {}}, {3 * kT, Trouble::cut_in_two, 4 * kT, {}}})) == "");
}

TEST_CASE("F11: neither is a firewall's reset together with its refusal, where two nodes are all", "[simulation]") {
  CHECK(play(firewalled()) == "");
  CHECK_THAT(play(firewalled(), Mutation::reset_is_death),
             Catch::Matchers::Contains("by the pair rule beside another"));
}

TEST_CASE("who is told to end keeps its vote until the next generation is decided", "[simulation]") {
  CHECK(shrink(most_are_told()) == "");
  CHECK(shrink(rank_0_is_told()) == "");
}

TEST_CASE("F12: a decree is proposed when all of its members are ready", "[simulation]") {
  auto const job = job_of(3, {{2 * kT, Trouble::worker_fails, 0, {}}, {2 * kT + 1000, Trouble::cut_off, 3 * kT, {}}});
  CHECK(play(job) == "");
}

// F13, run ids of a requeued job: of the shells, in tests/launcher and tests/jobs; the simulation has one run.
// F15, the commit of a checkpoint: of the checkpoint format, tests/src/runtime/checkpoint/checkpoint_format_test.cpp.

TEST_CASE("F14: a suspended job goes on where it was", "[simulation]") {
  CHECK(play(suspended()) == "");
  CHECK_THAT(play(suspended(), Mutation::expiry_kills), Catch::Matchers::Contains("where it was"));
}

TEST_CASE("F16: nobody is dropped whose vote is needed", "[simulation]") {
  for (std::uint32_t const nodes : {2U, 3U, 4U, 5U}) {
    CAPTURE(nodes);
    CHECK(succeed(resets(nodes)) == "");
  }
}

TEST_CASE("F17: whoever is decided hears it, also when it cannot run", "[simulation]") {
  auto const job = job_of(5, {{2 * kT, Trouble::both_die, 0, 4}, {2 * kT + 400'000, Trouble::both_die, 0, 3}});
  CHECK(succeed(job) == "");
}

TEST_CASE("F18: half of the promises and a fence are the last resort", "[simulation]") {
  auto job = job_of(4, {{2 * kT, Trouble::both_die, 0, 0}});
  job.policy.tie = job.agent.tie = rendezvous::Tie::fence;
  CHECK(succeed(job) == "");
  CHECK(succeed(late_promise()) == "");
}

TEST_CASE("F19, F20: nobody waits for those whose promises have gone to another, or who died after theirs",
          "[simulation]") {
  for (Micros const later : {1'000, 4'000, 8'000, 12'000, 16'000}) {
    auto job = job_of(7, {{2 * kT, Trouble::both_die, 0, 0}, {2 * kT + later, Trouble::host_dies, 0, 5}});
    job.policy.stop_timeout = Millis{20'000};
    CHECK(succeed(job) == "");
    job.faults[1] = {2 * kT + later, Trouble::both_die, 0, 1};  // the first to campaign, as a rule
    CHECK(succeed(job) == "");
  }
}

TEST_CASE("F22: nobody is dropped without whom too few nodes are left", "[simulation]") {
  for (std::uint32_t const nodes : {4U, 6U, 7U}) {
    CAPTURE(nodes);
    auto job = resets(nodes);
    job.policy.min_nodes = nodes - 1;
    CHECK(succeed(job) == "");
  }
}

TEST_CASE("a job that is restarted by hand goes on, also when its coordinator is lost meanwhile") {
  CHECK(stay(job_of(3, {{2 * kT, Trouble::restarted, 0, 0}, {4 * kT, Trouble::restarted, 0, 0}})) == "");
  for (Micros const later : {0, 3'000, 12'000}) {
    CAPTURE(later);
    CHECK(succeed(job_of(4, {{2 * kT, Trouble::restarted, 0, 1}, {2 * kT + later, Trouble::both_die, 0, 0}})) == "");
  }
}

TEST_CASE("a node that is drained by hand is not taken again, not by the next coordinator either") {
  auto const look = [](Job const& job) {
    auto const& drained = job.nodes[1]->workers;
    auto const& other = job.nodes[2]->workers;
    bool const again = !drained || !other || drained->generation().number >= other->generation().number;
    return no_success(job) + (again ? "the drained node takes part" : "");
  };
  CHECK(play_many(job_of(4, {{2 * kT, Trouble::drained, 0, 1}}), kPlays, look) == "");
  CHECK(play_many(job_of(4, {{2 * kT, Trouble::drained, 0, 1}, {6 * kT, Trouble::both_die, 0, 0}}), kPlays, look) ==
        "");
  for (Micros const later : {0, 3'000, 12'000}) {  // the next coordinator may not know of it
    CAPTURE(later);
    CHECK(succeed(job_of(4, {{2 * kT, Trouble::drained, 0, 1}, {2 * kT + later, Trouble::both_die, 0, 0}})) == "");
  }
}

TEST_CASE("whoever was dropped by a coordinator that steps down finds the next one", "[simulation]") {
  for (std::uint32_t const nodes : {2U, 3U, 4U, 5U}) {
    CAPTURE(nodes);
    CHECK(stay(resets(nodes)) == "");
  }
}
