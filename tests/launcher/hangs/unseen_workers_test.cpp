#include "launcher/hangs/unseen_workers.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

struct Node {
  UnseenPolicy policy{.limit = 5s, .asked = true, .watch = true, .bootstrap = true};
  UnseenState state;
  TimePoint now{1h};
  std::vector<std::uint32_t> stuck;
  int blind = 0;

  void watch(Millis time, std::vector<UnseenLook> const& workers) {
    for (auto const until = now + time; now < until; now += 1s) {
      auto step = look_for_unseen(std::move(state), workers, now, policy);
      state = std::move(step.next);
      stuck.insert(stuck.end(), step.stuck.begin(), step.stuck.end());
      blind += step.blind ? 1 : 0;
    }
  }
};

bool has(std::string const& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("unseen: that nobody shows anything is said once, and not before the limit", "[unit]") {
  Node node;
  node.watch(5s, {{0, 10, 'S', false}, {1, 11, 'R', false}});
  CHECK(node.blind == 0);
  node.watch(60s, {{0, 10, 'S', false}, {1, 11, 'R', false}});
  CHECK(node.blind == 1);
}

TEST_CASE("unseen: it is not said where one shows something, nobody asked, or nobody runs", "[unit]") {
  Node node;
  node.watch(60s, {{0, 10, 'S', false}, {1, 11, 'R', true}});
  node.policy.asked = false;
  node.watch(60s, {{0, 10, 'S', false}});
  node.policy.asked = true;
  node.watch(60s, {});
  CHECK(node.blind == 0);
}

TEST_CASE("unseen: one that is stopped or waits in the kernel for the limit is named once", "[unit]") {
  for (char const state : {'T', 'D'}) {
    Node node;
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
  Node node;
  for (int i = 0; i < 20; ++i) {
    node.watch(4s, {{0, 10, 'T', true}, {1, 11, 'D', false}, {2, 12, 'D', false}});
    node.watch(1s, {{0, 10, 'T', true}, {1, 11, 'T', false}, {2, 12, 'R', false}});
  }
  CHECK(node.stuck.empty());
}

TEST_CASE("unseen: the line names the cause that is there, and what to do", "[unit]") {
  UnseenPolicy policy{.limit = 5s, .asked = true, .watch = true, .bootstrap = true};
  CHECK(has(blind_line("n1", policy, true),
            "after 5 s no worker on n1 shows its collectives, for none has made a process group"));
  CHECK(has(blind_line("n1", policy, false), "python -I, -E or -S"));
  policy.bootstrap = false;
  CHECK(has(blind_line("n1", policy, false),
            "call cxxrun.install() in the script; the Python package cxxrun is neither"));
  policy.watch = false;
  CHECK(has(blind_line("n1", policy, false), "or leave --watch off out"));
  CHECK(has(stuck_line("rank 1 on n1", {1, 11, 'T', false}, "pid 11 (python3), state T", 5s),
            "rank 1 on n1 has not run for 5 s: pid 11 (python3), state T; it is stopped (SIGSTOP): kill -CONT 11"));
  CHECK(has(stuck_line("rank 1 on n1", {1, 11, 'D', false}, "told", 5s), "a file system or a device does not answer"));
}
