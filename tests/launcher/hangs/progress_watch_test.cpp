// The table of docs/use/hangs.md about one node, row by row.
#include "launcher/hangs/progress_watch.hpp"

#include <functional>

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"
#include "tests/support/text.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using cxxrun::test::has;

namespace {

struct Node {
  WatchPolicy policy;
  WatchState state;
  TimePoint now{1h};
  std::vector<rendezvous::Standstill> told;  // all reports

  /// Looks once per second for this long; the workers stay as they are.
  void watch(std::chrono::seconds time, std::vector<WorkerSample> const& workers) {
    for (auto second = 0s; second < time; ++second) {
      now += 1s;
      once(workers);
    }
  }
  void once(std::vector<WorkerSample> const& workers) {
    auto step = watch_step(std::move(state), workers, now, policy);
    state = std::move(step.next);
    told.insert(told.end(), step.tell.begin(), step.tell.end());
  }
};

WorkerSample at(std::uint64_t entered, std::uint64_t done, bool halted = false) {
  return {3, {1, entered, done, 0, 25}, halted};
}

/// A node that has reported once.
Node told_of() {
  Node node;
  node.watch(16s, {at(8, 7)});
  REQUIRE(node.told.size() == 1);
  REQUIRE(node.told.front().still == 15s);
  return node;
}

bool says_that_it_moves(Node const& node) {
  return node.told.size() == 2 && node.told.back().still == 0s && node.told.back().rank == 3;
}

std::map<std::string, std::function<void()>> rows() {
  return {{"moves: begins or ends a collective",
           [] {
             Node node;
             for (std::uint64_t i = 0; i < 20; ++i) {
               node.watch(10s, {at(i / 2 + 1, (i + 1) / 2)});
             }
             for (std::uint64_t i = 0; i < 20; ++i) {  // or in a group
               auto look = at(8, 7);
               look.figures.groups = {{77, i, 2}};
               node.watch(10s, {look});
             }
             CHECK(node.told.empty());
           }},
          {"has not moved for a period",
           [] {
             Node node;
             node.watch(15s, {at(8, 7)});
             CHECK(node.told.empty());
             node.watch(1s, {at(8, 7)});
             CHECK(node.told == std::vector<rendezvous::Standstill>{{3, 8, 7, 0, 25, 15s, false}});
           }},
          {"has not moved for another period",
           [] {
             auto node = told_of();
             node.watch(14s, {at(8, 7)});
             CHECK(node.told.size() == 1);
             node.watch(1s, {at(8, 7)});
             REQUIRE(node.told.size() == 2);
             CHECK(node.told.back().still == 30s);
           }},
          {"has been told of, and its process is stopped",
           [] {
             auto node = told_of();
             node.watch(2s, {at(8, 7, true)});
             REQUIRE(node.told.size() == 2);
             CHECK(node.told.back().halted);
           }},
          {"has been told of, and moves",
           [] {
             auto node = told_of();
             node.watch(10s, {at(8, 8)});
             CHECK(says_that_it_moves(node));
             node.watch(6s, {at(8, 8)});
             REQUIRE(node.told.size() == 3);
             CHECK(node.told.back().still == 15s);
           }},
          {"has been told of, and ends, or has no page any more",
           [] {
             auto node = told_of();
             node.watch(60s, {});
             CHECK(says_that_it_moves(node));
           }},
          {"was not looked at for half a period, at least 1 s: the node or the job was suspended",
           [] {
             auto node = told_of();
             node.now += 1h;
             node.once({at(8, 7)});
             CHECK(says_that_it_moves(node));
             node.watch(14s, {at(8, 7)});
             CHECK(node.told.size() == 2);
             node.watch(1s, {at(8, 7)});
             REQUIRE(node.told.size() == 3);
             CHECK(node.told.back().still == 15s);
             Node fresh;
             fresh.watch(14s, {at(8, 7)});
             fresh.now += 1h;
             fresh.watch(14s, {at(8, 7)});
             CHECK(fresh.told.empty());
             Node slow;
             slow.policy = watch_policy(2s);
             slow.once({at(8, 7)});
             slow.now += 1s;
             slow.once({at(8, 7)});
             CHECK(slow.told.size() == 1);
             slow.now += 1001ms;
             slow.once({at(8, 7)});
             CHECK(says_that_it_moves(slow));
           }},
          {"has no page, or none of this generation", [] {
             Node node;
             node.watch(60s, {});
             CHECK(node.told.empty());
             CHECK(node.state.workers.empty());
           }}};
}

}  // namespace

TEST_CASE("progress_watch: every row of the node's table in docs/use/hangs.md is what happens", "[unit]") {
  cxxrun::testing::check_rows(cxxrun::testing::documented_rows("use/hangs.md", "a worker"), rows());
}

TEST_CASE("progress_watch: a quarter of the timeout or of 60 s, and looks often enough", "[unit]") {
  CHECK(watch_policy(0s).period == 15s);
  CHECK(watch_policy(600s).period == 15s);
  CHECK(watch_policy(4s).period == 1s);
  CHECK(watch_policy(0s).sample() == 1s);
  CHECK(watch_policy(4s).sample() == 250ms);
  CHECK(watch_policy(1s).sample() == 100ms);
  CHECK(watch_policy(1s).gap() == 1s);
}

TEST_CASE("progress_watch: a page tells of the steps of its own generation, within the time that the workers ran",
          "[unit]") {
  TimePoint const began{1h};
  TimePoint const now = began + 60s;
  auto const word = [](TimePoint at) { return at.time_since_epoch().count(); };
  worker::ControlPage page;
  page.generation = 2;
  page.alive = word(began + 50s);
  CHECK(steps_in(page, 1, began, now) == rendezvous::StepTimes{});
  CHECK(steps_in(page, 2, began, now) == rendezvous::StepTimes{std::nullopt, began + 50s});
  page.first_step = word(began + 10s);
  page.last_step = word(began + 40s);
  CHECK(steps_in(page, 2, began, now) == rendezvous::StepTimes{began + 10s, began + 40s});
  page.first_step = 1;
  page.last_step = word(now + 1h);
  CHECK(steps_in(page, 2, began, now) == rendezvous::StepTimes{began, now});
}

TEST_CASE("progress_watch: checkpoints took what the page says, within the time of its steps", "[unit]") {
  TimePoint const began{1h};
  TimePoint const now = began + 60s;
  auto const word = [](TimePoint at) { return at.time_since_epoch().count(); };
  worker::ControlPage page;
  page.generation = 2;
  page.alive = word(began + 50s);
  page.checkpointing = std::chrono::nanoseconds(7s).count();
  CHECK(steps_in(page, 2, began, now).checkpoints == 7s);
  page.first_step = word(began + 10s);
  page.last_step = word(began + 12s);
  CHECK(steps_in(page, 2, began, now).checkpoints == 2s);
  page.checkpointing = -1;
  CHECK_FALSE(steps_in(page, 2, began, now).checkpoints);
  page.first_step = word(began + 40s);  // after the last one
  page.checkpointing = INT64_MAX;
  CHECK(steps_in(page, 2, began, now) == rendezvous::StepTimes{began + 40s, began + 40s, 0ms});
}

namespace {

struct UnseenNode {
  UnseenPolicy policy{.limit = 5s, .asked = true, .watch = true, .bootstrap = true};
  UnseenState state;
  TimePoint now{1h};
  std::vector<std::uint32_t> stuck;
  int blind = 0;

  void watch(Millis time, std::vector<UnseenSample> const& workers) {
    for (auto const until = now + time; now < until; now += 1s) {
      auto step = unseen_step(std::move(state), workers, now, policy);
      state = std::move(step.next);
      stuck.insert(stuck.end(), step.stuck.begin(), step.stuck.end());
      blind += step.blind ? 1 : 0;
    }
  }
};

}  // namespace

TEST_CASE("unseen: that nobody shows anything is said once, and not before the limit", "[unit]") {
  UnseenNode node;
  node.watch(5s, {{0, 10, 'S', false}, {1, 11, 'R', false}});
  CHECK(node.blind == 0);
  node.watch(60s, {{0, 10, 'S', false}, {1, 11, 'R', false}});
  CHECK(node.blind == 1);
}

TEST_CASE("unseen: it is not said where one shows something, nobody asked, or nobody runs", "[unit]") {
  UnseenNode node;
  node.watch(60s, {{0, 10, 'S', false}, {1, 11, 'R', true}});
  node.policy.asked = false;
  node.watch(60s, {{0, 10, 'S', false}});
  node.policy.asked = true;
  node.watch(60s, {});
  CHECK(node.blind == 0);
}

TEST_CASE("unseen: one that is stopped or waits in the kernel for the limit is named once", "[unit]") {
  for (char const state : {'T', 'D'}) {
    UnseenNode node;
    node.watch(5s, {{0, 10, 'S', false}, {1, 11, state, false}});
    CHECK(node.stuck.empty());
    node.watch(60s, {{0, 10, 'S', false}, {1, 11, state, false}});
    CHECK(node.stuck == std::vector<std::uint32_t>{1});
    node.watch(1s, {{0, 10, 'S', false}, {1, 11, 'S', false}});
    node.watch(60s, {{0, 10, 'S', false}, {1, 11, state, false}});
    CHECK(node.stuck == std::vector<std::uint32_t>{1, 1});
  }
}

TEST_CASE("unseen: one whose page tells, that changes between the two states, or runs meanwhile is not named",
          "[unit]") {
  UnseenNode node;
  for (int i = 0; i < 20; ++i) {
    node.watch(4s, {{0, 10, 'T', true}, {1, 11, 'D', false}, {2, 12, 'D', false}});
    node.watch(1s, {{0, 10, 'T', true}, {1, 11, 'T', false}, {2, 12, 'R', false}});
  }
  CHECK(node.stuck.empty());
}

TEST_CASE("unseen: the line names the cause that is there, and what to do", "[unit]") {
  UnseenPolicy policy{.limit = 5s, .asked = true, .watch = true, .bootstrap = true};
  CHECK(has(blind_line("n1", policy, true),
            "after 5 s no worker on n1 shows its collectives, because none has made a process group"));
  CHECK(has(blind_line("n1", policy, false), "python -I, -E or -S"));
  policy.bootstrap = false;
  CHECK(has(blind_line("n1", policy, false),
            "call cxxrun.install() in the script; the Python package cxxrun is neither"));
  policy.watch = false;
  CHECK(has(blind_line("n1", policy, false), "or remove --watch off"));
  CHECK(has(stuck_line("rank 1 on n1", {1, 11, 'T', false}, "pid 11 (python3), state T", 5s),
            "rank 1 on n1 has not run for 5 s: pid 11 (python3), state T; it is stopped (SIGSTOP): kill -CONT 11"));
  CHECK(has(stuck_line("rank 1 on n1", {1, 11, 'D', false}, "told", 5s), "a file system or a device does not answer"));
}
