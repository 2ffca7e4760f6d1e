#include "rendezvous/history/fitness.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace): the units under test
using Keys = std::vector<std::string>;

namespace {

FirstFailure failure(std::string const& host, std::uint32_t rank, ExitStatus status, std::string const& tail = "") {
  FirstFailure first;
  first.key = "key of " + host;
  first.host = host;
  first.group_rank = first.exit.rank = rank;
  first.exit.status = status;
  first.exit.stderr_tail = tail;
  return first;
}
/// Each with last words of its own.
FirstFailure exited(std::string const& host, std::uint32_t rank) {
  return failure(host, rank, ExitStatus::exited(1), "ValueError: " + host);
}
FirstFailure killed(std::string const& host, std::uint32_t rank) {
  return failure(host, rank, ExitStatus::signalled(7), "memory of " + host);
}

std::size_t count(Fitness const& fitness, std::string const& host) {
  return faults_of(fitness, "key of " + host, host).size();
}

}  // namespace

TEST_CASE("fitness: an exit twice running is the node's fault, unless the rank fails elsewhere too", "[unit]") {
  Fitness fitness;
  CHECK_FALSE(attribute_failure(fitness, exited("a", 1)).repeated);
  CHECK_FALSE(attribute_failure(fitness, exited("b", 2)).repeated);
  CHECK_FALSE(attribute_failure(fitness, exited("a", 1)).repeated);
  CHECK(attribute_failure(fitness, exited("a", 1)).repeated);
  CHECK(fitness.faults.empty());  // no other node was tried in its place
  add_suspect(fitness, exited("a", 1));
  CHECK(count(fitness, "a") == 2);

  CHECK(attribute_failure(fitness, exited("c", 2)).by_rank.empty());
  auto const followed = attribute_failure(fitness, exited("d", 1));
  CHECK(followed.by_rank == Keys{"key of a"});
  CHECK_FALSE(followed.repeated);
  CHECK(fitness.suspects.empty());
  CHECK(count(fitness, "a") == 0);
  CHECK_FALSE(attribute_failure(fitness, exited("d", 1)).repeated);  // rank 1 is known to fail wherever it is
  CHECK(attribute_failure(fitness, exited("d", 2)).by_rank.empty());
}

TEST_CASE("fitness: the second time that a node's worker is killed is enough, whatever failed in between", "[unit]") {
  Fitness fitness;
  CHECK_FALSE(attribute_failure(fitness, killed("a", 1)).repeated);
  CHECK_FALSE(attribute_failure(fitness, exited("b", 2)).repeated);
  auto const second = attribute_failure(fitness, killed("a", 1));
  CHECK(second.repeated);
  CHECK_FALSE(second.in_a_row);
  CHECK(fault_text(fitness.faults) == "the cause of 2 failures, the last one rank 1: signal 7 (SIGBUS)");
}

TEST_CASE("fitness: a hang counts like a signal, a program that cannot be started like an exit", "[unit]") {
  Fitness fitness;
  auto hung = killed("a", 1);
  hung.exit.hung = "did not enter barrier #3";
  CHECK_FALSE(attribute_failure(fitness, hung).repeated);
  CHECK(fitness.faults.back().what == "rank 1 did not enter barrier #3");
  CHECK_FALSE(attribute_failure(fitness, failure("b", 2, ExitStatus::not_started(2))).repeated);
  CHECK(count(fitness, "b") == 0);
}

TEST_CASE("fitness: what a job does to itself is held against no node, however often", "[unit]") {
  Fitness fitness;
  auto at_limit = killed("a", 1);
  at_limit.exit.of_job = true;
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(attribute_failure(fitness, at_limit).repeated);
  }
  CHECK(fitness.faults.empty());
  CHECK_FALSE(attribute_failure(fitness, exited("a", 1)).repeated);
  CHECK_FALSE(attribute_failure(fitness, at_limit).repeated);
  CHECK_FALSE(attribute_failure(fitness, exited("a", 1)).repeated);  // not twice running
  CHECK(attribute_failure(fitness, exited("a", 1)).repeated);
  add_suspect(fitness, exited("a", 1));
  CHECK(count(fitness, "a") == 2);
}

TEST_CASE("fitness: failures of earlier runs count", "[unit]") {
  Fitness fitness;
  note_fault(fitness, {"a", "lost", 0});
  CHECK(attribute_failure(fitness, killed("a", 1)).repeated);
}

TEST_CASE("fitness: of two nodes on one host each has its own failures, and both those of the host in earlier runs",
          "[unit]") {
  Fitness fitness;
  auto first = killed("a", 1);
  CHECK_FALSE(attribute_failure(fitness, first).repeated);
  first.key = "another";
  first.exit.stderr_tail = "something else";
  CHECK_FALSE(attribute_failure(fitness, first).repeated);
  note_fault(fitness, {"a", "lost"});
  CHECK(faults_of(fitness, "key of a", "a").size() == 2);
  CHECK(faults_of(fitness, "another", "a").size() == 2);
}

TEST_CASE("fitness: what two nodes fail of is neither's fault, before and after one of them is suspected", "[unit]") {
  auto const segfault = ExitStatus::signalled(11);
  Fitness fitness;
  CHECK_FALSE(attribute_failure(fitness, failure("a", 1, segfault)).repeated);
  CHECK_FALSE(attribute_failure(fitness, failure("b", 2, segfault)).repeated);
  CHECK(fitness.faults.empty());
  CHECK_FALSE(attribute_failure(fitness, failure("b", 2, segfault)).repeated);  // not even twice running
  CHECK_FALSE(attribute_failure(fitness, failure("a", 1, segfault)).repeated);
  CHECK(fitness.faults.empty());

  fitness = {};
  CHECK_FALSE(attribute_failure(fitness, failure("a", 1, segfault)).repeated);
  CHECK(attribute_failure(fitness, failure("a", 1, segfault)).repeated);
  add_suspect(fitness, failure("a", 1, segfault));
  auto const same = attribute_failure(fitness, failure("b", 0, segfault));
  CHECK(same.by_look == Keys{"key of a"});
  CHECK_FALSE(same.repeated);
  CHECK(fitness.suspects.empty());
  CHECK(fitness.faults.empty());
}

TEST_CASE("fitness: another failure elsewhere acquits nobody", "[unit]") {
  Fitness fitness;
  note_fault(fitness, {"c", "lost", 0});
  CHECK_FALSE(attribute_failure(fitness, killed("a", 1)).repeated);
  CHECK(attribute_failure(fitness, killed("a", 1)).repeated);
  add_suspect(fitness, killed("a", 1));
  auto const other = attribute_failure(fitness, killed("b", 0));
  CHECK(other.by_look.empty());
  CHECK(other.by_rank.empty());
  CHECK(fitness.suspects.size() == 1);
  CHECK(count(fitness, "a") == 2);
  CHECK(count(fitness, "b") == 1);
  CHECK(count(fitness, "c") == 1);
}

TEST_CASE("fitness: who takes over knows this run's faults from the decree, and those of earlier runs by itself",
          "[unit]") {
  Fitness first;
  note_fault(first, {"a", "lost"});
  CHECK_FALSE(attribute_failure(first, killed("b", 1)).repeated);
  auto const decided = faults_in_short(first);
  REQUIRE(decided.size() == 1);
  CHECK(decided.front() == first.faults.back());

  Fitness next;
  note_fault(next, {"a", "lost"});
  inherit_faults(next, decided);
  inherit_faults(next, decided);  // two campaigns
  CHECK(next.faults == first.faults);
  CHECK(attribute_failure(next, killed("b", 1)).repeated);
}

TEST_CASE("fitness: a decree has the newest faults only, in bytes that every voter writes alike", "[unit]") {
  Fitness fitness;
  for (int i = 0; i < 20; ++i) {
    note_fault(fitness, {"a\xff", std::string(100, 'x') + std::to_string(i), 0, "#" + std::to_string(i)});
  }
  note_fault(fitness, {"b", "lost", 0, std::string(100, 'b')});
  auto const decided = faults_in_short(fitness);
  REQUIRE(decided.size() == kFaultsOfDecree);
  CHECK(decided.front() == NodeFault{"a?", std::string(80, 'x'), 0, "#12"});
  CHECK(decided.back().key == "#19");  // the name of b would be cut
}

TEST_CASE("fitness: what is remembered is bounded", "[unit]") {
  Fitness fitness;
  for (int i = 0; i < 2000; ++i) {
    note_fault(fitness, {"a", std::to_string(i), 0});
  }
  CHECK(fitness.faults.size() == 1000);
  CHECK(fitness.faults.back().what == "1999");
}
