// The coordinator's table of docs/use/hangs.md, row by row.
#include "rendezvous/hangs/hang_detector.hpp"

#include <functional>

#include "src/base/worker/page_view.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

std::uint32_t const kReduce = worker::packed(comm::Kind::all_reduce, DType::f32, ReduceOp::sum);
std::uint32_t const kGather = worker::packed(comm::Kind::all_gather, DType::u8, ReduceOp::sum);

/// Four ranks, 0 and 1 on n0, 2 and 3 on n1.
struct Ranks {
  HangPolicy policy{60s};
  HangState state;
  TimePoint now = TimePoint{} + 1h;
  std::string line;
  std::vector<HangOrder> orders;
  std::vector<std::string> lines;

  Ranks& told(Standstill const& each) {
    on_standstills(state, each.rank < 2 ? "n0" : "n1", {each}, now, policy);
    return *this;
  }
  Ranks& inside(std::uint32_t rank, std::uint64_t sequence, Millis still, bool halted = false,
                std::uint32_t what = kReduce) {
    return told({rank, sequence, sequence - 1, what, 25, still, halted});
  }
  Ranks& computes(std::uint32_t rank, std::uint64_t sequence, Millis still) {
    return told({rank, sequence, sequence, kReduce, 25, still, false});
  }
  /// So many begun in the default group, and in one of ranks 0 and 1, or 2 and 3, and in one of 0 and 2, or 1 and 3.
  Ranks& begun(std::uint32_t rank, std::uint64_t in_all, std::uint64_t in_pair, std::uint64_t across, Millis still,
               bool halted = false, bool idle = false) {
    std::vector<worker::GroupCount> const groups{{10 + rank / 2, in_pair, 2}, {20 + rank % 2, across, 2}};
    return told({rank, in_all, in_all - (in_all > 0 ? 1 : 0), worker::kBegunOperation, 0, still, halted, idle, groups});
  }
  Ranks& moves(std::uint32_t rank, std::uint64_t sequence) {
    return told({rank, sequence, sequence - 1, kReduce, 25, 0ms, false});
  }
  Ranks& pass(Millis time) {
    now += time;
    auto const judged = judge_hangs(state, 4, now, policy);
    line = judged.line;
    orders = judged.orders;
    if (!line.empty()) {
      lines.push_back(line);
    }
    return *this;
  }
  [[nodiscard]] bool quiet() const { return line.empty() && orders.empty(); }
  [[nodiscard]] std::vector<std::uint32_t> killed() const {
    std::vector<std::uint32_t> ranks;
    for (auto const& order : orders) {
      ranks.push_back(order.rank);
    }
    return ranks;
  }
};

using Killed = std::vector<std::uint32_t>;

Ranks three_wait(Millis time) {
  Ranks ranks;
  ranks.inside(0, 812, time).inside(1, 812, time).inside(2, 812, time);
  return ranks;
}

std::map<std::string, std::function<void()>> rows() {
  return {
      {"nobody is inside",
       [] {
         Ranks ranks;
         ranks.computes(0, 7, 70s).computes(1, 6, 70s).pass(0s);
         CHECK(ranks.quiet());
         CHECK_FALSE(ranks.state.due);
       }},
      {"some are inside for less than the limit",
       [] {
         auto ranks = three_wait(59s);
         ranks.computes(3, 811, 70s).pass(999ms);
         CHECK(ranks.quiet());
         CHECK(ranks.state.due);
         CHECK_FALSE(ranks.pass(1ms).quiet());
       }},
      {"one computes for longer than the limit, and nobody waits",
       [] {
         Ranks ranks;
         ranks.computes(3, 811, 1h).pass(1s);
         CHECK(ranks.quiet());
       }},
      {"one is late",
       [] {
         auto ranks = three_wait(62s);
         ranks.computes(3, 811, 63s).pass(0s);
         CHECK(ranks.line ==
               "rank 3 on n1 has not entered all_reduce #812 (25 f32) for 62 s that 3 others wait in; it "
               "has done all_reduce #811 (25 f32)");
         CHECK(ranks.orders ==
               std::vector<HangOrder>{
                   {3, 811, "did not enter all_reduce #812 (25 f32) for 62 s that 3 others waited in"}});
       }},
      {"one has not moved for the limit, but those who wait for it have waited for less",
       [] {
         Ranks ranks;
         ranks.inside(0, 812, 10s).computes(3, 811, 120s).pass(0s);
         CHECK(ranks.quiet());
       }},
      {"several are late",
       [] {
         Ranks ranks;
         ranks.inside(0, 812, 61s).computes(1, 811, 61s).computes(2, 809, 61s).computes(3, 809, 61s).pass(0s);
         CHECK(ranks.line.starts_with("rank 2 on n1, rank 3 on n1, rank 1 on n0 have not entered "));
         CHECK(ranks.killed() == Killed{2, 3});
         Ranks many;
         many.inside(0, 812, 61s);
         for (std::uint32_t rank = 1; rank < 20; ++rank) {
           many.computes(rank, 811, 61s);
         }
         many.pass(0s);
         CHECK(many.orders.size() == 8);
         CHECK(many.line.find("rank 8 on n1 and 11 more have") != std::string::npos);
       }},
      {"one is inside an older collective",
       [] {
         auto ranks = three_wait(61s);
         ranks.inside(3, 811, 62s).pass(0s);
         CHECK(ranks.line.ends_with("; it is in all_reduce #811 (25 f32)"));
         CHECK(ranks.killed() == Killed{3});
       }},
      {"one is inside an older collective, and another is further behind",
       [] {
         Ranks ranks;
         ranks.inside(0, 812, 61s).inside(1, 811, 61s).computes(2, 809, 61s).inside(3, 812, 61s).pass(0s);
         CHECK(ranks.line.starts_with("rank 2 on n1 has not entered all_reduce #812 "));
         CHECK(ranks.killed() == Killed{2});
       }},
      {"all have begun the same one, and whether it is done is not known",
       [] {
         Ranks ranks;
         for (std::uint32_t rank = 0; rank < 4; ++rank) {
           ranks.inside(rank, 812, 61s, false, worker::kBegunOperation);
         }
         ranks.pass(0s);
         CHECK(ranks.quiet());
         Ranks uneven;  // one was looked at a moment earlier than the others
         uneven.inside(3, 811, 60s, false, worker::kBegunOperation).inside(0, 812, 59s, false, worker::kBegunOperation);
         uneven.pass(0s);
         CHECK(uneven.quiet());
         uneven.inside(0, 812, 61s, false, worker::kBegunOperation)
             .inside(3, 811, 62s, false, worker::kBegunOperation)
             .pass(0s);
         CHECK(uneven.line ==
               "rank 3 on n1 has not entered collective #812 for 61 s that 1 other wait in; it has begun "
               "collective #811");
         CHECK(uneven.killed() == Killed{3});
       }},
      {"one is stopped inside the collective",
       [] {
         auto ranks = three_wait(61s);
         ranks.inside(3, 812, 61s, true).pass(0s);
         CHECK(ranks.line == "rank 3 on n1 is stopped in all_reduce #812 (25 f32) for 61 s that 3 others wait in");
         CHECK(ranks.killed() == Killed{3});
         CHECK(ranks.orders.front().why == "was stopped in all_reduce #812 (25 f32) for 61 s that 3 others waited in");
       }},
      {"all are stopped",
       [] {
         Ranks ranks;
         ranks.inside(0, 812, 61s, true).inside(1, 812, 61s, true).inside(2, 812, 61s, true).pass(0s);
         CHECK(ranks.quiet());
       }},
      {"one that was late moves",
       [] {
         auto ranks = three_wait(59s);
         ranks.computes(3, 811, 59s).pass(0s);
         ranks.moves(3, 812).moves(0, 812).moves(1, 812).moves(2, 812).pass(10s);
         CHECK(ranks.quiet());
         auto catching_up = three_wait(59s);
         catching_up.computes(3, 805, 59s).pass(0s);
         catching_up.moves(3, 806).pass(10s);
         CHECK(catching_up.orders.empty());
         CHECK(catching_up.line.starts_with("3 of 4 ranks are in "));
       }},
      {"all are inside the same one",
       [] {
         auto ranks = three_wait(61s);
         ranks.inside(3, 812, 60s).pass(0s);
         CHECK(ranks.line ==
               "all 4 ranks are in all_reduce #812 (25 f32) for 61 s and nobody is missing: look at the "
               "network, or at a device");
         CHECK(ranks.orders.empty());
       }},
      {"some are inside, the others move or show nothing",
       [] {
         auto ranks = three_wait(61s);
         ranks.pass(0s);
         CHECK(ranks.line.starts_with("3 of 4 ranks are in all_reduce #812 (25 f32) for 61 s; the others move"));
         CHECK(ranks.orders.empty());
         auto been_through = three_wait(61s);
         been_through.computes(3, 812, 61s).pass(0s);
         CHECK(been_through.line.starts_with("3 of 4 ranks"));
         CHECK(been_through.orders.empty());
       }},
      {"two are inside and mean different things by it",
       [] {
         auto ranks = three_wait(61s);
         ranks.inside(3, 812, 61s, false, kGather).pass(0s);
         CHECK(ranks.line ==
               "ranks wait in collective #812 for 61 s with different calls: rank 0 on n0 "
               "called all_reduce of 25 f32, sum; rank 3 on n1 called all_gather of 25 u8");
         REQUIRE(ranks.killed() == Killed{3});
         CHECK(ranks.orders.front().why ==
               "called all_gather of 25 u8 as collective #812 where most others called all_reduce of 25 f32, sum, and "
               "all waited for 61 s");
       }},
      {"as many are inside and mean different things by it, or it is not known what they mean",
       [] {
         Ranks halves;
         halves.inside(0, 812, 61s).inside(1, 812, 61s).inside(2, 812, 61s, false, kGather);
         halves.inside(3, 812, 61s, false, kGather).pass(0s);
         CHECK(halves.line.find("with different calls") != std::string::npos);
         CHECK(halves.orders.empty());
         Ranks elsewhere;  // one moves: the others may still get on
         elsewhere.inside(0, 812, 61s).inside(1, 812, 61s).inside(2, 812, 61s, false, kGather).pass(0s);
         CHECK(elsewhere.orders.empty());
         auto unknown = three_wait(61s);
         unknown.inside(3, 812, 61s, false, worker::kUnknownOperation).pass(0s);
         CHECK(unknown.orders.empty());
       }},
      {"one calls a collective while the others are in a backward pass",
       [] {
         Ranks ranks;
         for (std::uint32_t rank = 0; rank < 3; ++rank) {
           ranks.told({rank, 812, 811, worker::kBegunOperation, worker::kInBackward, 61s, false});
         }
         auto alike = ranks;
         alike.told({3, 812, 811, kReduce, 25, 61s, false}).pass(0s);
         CHECK(alike.orders.empty());
         ranks.inside(3, 812, 61s, false, worker::packed(comm::Kind::barrier, DType::u8, ReduceOp::sum)).pass(0s);
         CHECK(ranks.line ==
               "ranks wait in collective #812 for 61 s with different calls: rank 0 on n0 was in a backward "
               "pass; rank 3 on n1 called barrier");
         REQUIRE(ranks.killed() == Killed{3});
         CHECK(ranks.orders.front().why ==
               "called barrier as collective #812 where most others were in a backward pass, and all waited for 61 s");
       }},
      {"the same as before",
       [] {
         auto ranks = three_wait(60s);
         ranks.computes(3, 811, 60s).pass(0s).pass(1s).pass(20s);
         ranks.inside(0, 812, 81s).computes(3, 811, 81s).pass(1s);
         CHECK(ranks.quiet());
         CHECK(ranks.lines.size() == 1);
       }},
      {"one was ordered to be killed, has moved, and is late again",
       [] {
         auto ranks = three_wait(60s);
         ranks.computes(3, 811, 60s).pass(0s);
         REQUIRE(ranks.killed() == Killed{3});
         ranks.moves(0, 813).moves(1, 813).moves(2, 813).moves(3, 812).pass(1s);
         CHECK(ranks.quiet());
         ranks.inside(0, 813, 60s).inside(1, 813, 60s).inside(2, 813, 60s).computes(3, 812, 60s).pass(0s);
         CHECK(ranks.killed() == Killed{3});
         CHECK(ranks.lines.size() == 2);
       }},
      {"one is behind in another group, and waits for nobody",
       [] {
         Ranks ranks;  // 2 waits for 3, 0 for 2, 1 for 3
         ranks.begun(0, 1, 8, 8, 62s).begun(1, 1, 8, 8, 62s).begun(2, 1, 8, 7, 62s).begun(3, 1, 7, 7, 62s).pass(0s);
         CHECK(ranks.line == "rank 3 on n1 has not entered a collective of ranks 2, 3 for 62 s that 1 other wait in");
         CHECK(ranks.orders ==
               std::vector<HangOrder>{
                   {3, 15, "did not enter a collective of ranks 2, 3 for 62 s that 1 other waited in"}});
         ranks.begun(3, 1, 8, 7, 0s).pass(1s);  // it moves
         CHECK(ranks.orders.empty());
         Ranks stopped;
         stopped.begun(0, 1, 8, 8, 62s).begun(1, 1, 8, 8, 62s).begun(2, 1, 8, 7, 62s).begun(3, 1, 8, 7, 62s, true);
         stopped.pass(0s);
         CHECK(stopped.line == "rank 3 on n1 is stopped in a collective of ranks 2, 3 for 62 s that 1 other wait in");
         CHECK(stopped.killed() == Killed{3});
       }},
      {"one is behind in a group, and may be waiting in another for a rank that moves or shows nothing",
       [] {
         Ranks ranks;
         ranks.begun(0, 1, 8, 8, 62s).begun(1, 1, 8, 8, 62s).begun(2, 1, 8, 7, 62s).pass(0s);
         CHECK(ranks.quiet());
         Ranks idle;  // the same, but it is known that it waits nowhere
         idle.begun(0, 1, 8, 8, 62s).begun(1, 1, 8, 8, 62s).begun(2, 1, 8, 7, 62s, false, true).pass(0s);
         CHECK(idle.killed() == Killed{2});
         Ranks unused;  // a group in which nothing has begun holds up no rank
         unused.begun(2, 0, 8, 7, 62s).begun(3, 0, 7, 7, 62s).begun(1, 0, 8, 8, 62s).pass(0s);
         CHECK(unused.killed() == Killed{3});
         Ranks no_pair;
         no_pair.begun(0, 0, 0, 8, 62s).begun(2, 0, 0, 7, 62s).pass(0s);
         CHECK(no_pair.killed() == Killed{2});
       }},
      {"one is late, and waits in another group for one that is behind there",
       [] {
         Ranks ranks;
         ranks.begun(0, 9, 8, 8, 62s).begun(1, 9, 8, 8, 62s).begun(2, 8, 8, 8, 62s).begun(3, 8, 7, 8, 62s).pass(0s);
         CHECK(ranks.line.starts_with("rank 3 on n1 has not entered collective #9 for 62 s that 2 others wait in"));
         CHECK(ranks.killed() == Killed{3});
       }},
      {"all stand still, and each waits for another one in another group",
       [] {
         Ranks ranks;
         ranks.begun(0, 1, 8, 7, 62s).begun(1, 1, 7, 8, 62s).begun(2, 1, 7, 8, 62s).begun(3, 1, 8, 7, 62s).pass(0s);
         CHECK(ranks.line ==
               "rank 0 on n0, rank 1 on n0, rank 2 on n1, rank 3 on n1 wait for 62 s in one group while others wait in "
               "another: do all ranks begin the collectives of their groups in the same order?");
         CHECK(ranks.orders.empty());
         CHECK(ranks.pass(1s).quiet());
         Ranks even;  // what has begun may be done
         even.begun(0, 1, 8, 8, 62s).begun(1, 1, 8, 8, 62s).begun(2, 1, 8, 8, 62s).begun(3, 1, 8, 8, 62s).pass(0s);
         CHECK(even.quiet());
       }},
      {"no `--hang-timeout`",
       [] {
         Ranks ranks;
         ranks.policy.timeout = 0s;
         ranks.inside(0, 2, 59s).computes(1, 1, 59s).pass(0s);
         CHECK(ranks.quiet());
         ranks.pass(1s);
         CHECK_FALSE(ranks.line.empty());
         ranks.pass(24h);
         CHECK(ranks.orders.empty());
       }},
  };
}

}  // namespace

TEST_CASE("hang detector: every row of the coordinator's table in docs/use/hangs.md is what happens", "[unit]") {
  cxxrun::testing::check_rows(cxxrun::testing::documented_rows("use/hangs.md", "what is seen"), rows());
}

TEST_CASE("hang detector: a shorter timeout warns and kills at that time, and not an instant before", "[unit]") {
  Ranks ranks;
  ranks.policy.timeout = 4s;
  ranks.inside(0, 9, 1s).computes(1, 8, 1s).pass(2999ms);
  CHECK(ranks.quiet());
  ranks.pass(1ms);
  CHECK(ranks.killed() == Killed{1});
  CHECK(ranks.line.find("for 4 s that 1 other wait") != std::string::npos);
}

TEST_CASE("hang detector: a longer timeout warns after 60 s and kills later", "[unit]") {
  Ranks ranks;
  ranks.policy.timeout = 600s;
  ranks.inside(0, 9, 60s).computes(1, 8, 60s).pass(0s);
  CHECK_FALSE(ranks.line.empty());
  CHECK(ranks.orders.empty());
  ranks.pass(539s);
  CHECK(ranks.quiet());
  CHECK(ranks.pass(1s).killed() == Killed{1});
}

TEST_CASE("hang detector: times are judged where the timer rings, at most a second late", "[unit]") {
  Ranks ranks;
  ranks.inside(0, 9, 15s).computes(1, 8, 15s);
  auto const start = ranks.now;
  while (ranks.orders.empty()) {
    REQUIRE(ranks.state.due);
    REQUIRE(*ranks.state.due > ranks.now);
    ranks.pass(std::chrono::duration_cast<Millis>(*ranks.state.due - ranks.now));
    REQUIRE(ranks.now - start < 47s);
  }
  CHECK(ranks.now - start >= 45s);
}

TEST_CASE("hang detector: one rank that never entered anything is late too", "[unit]") {
  Ranks ranks;
  ranks.inside(0, 1, 61s).told({3, 0, 0, worker::kUnknownOperation, 0, 61s, false}).pass(0s);
  CHECK(ranks.line.ends_with("; it has entered no collective yet"));
  CHECK(ranks.killed() == Killed{3});
  Ranks stopped;
  stopped.inside(0, 9, 61s).told({3, 8, 8, kReduce, 25, 61s, true}).pass(0s);
  CHECK(stopped.line.ends_with("; it has done all_reduce #8 (25 f32), and its process is stopped"));
  CHECK(stopped.orders.front().why.starts_with("is stopped and did not enter all_reduce #9"));
}
