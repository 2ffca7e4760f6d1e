// Groups and survivors in place: the groups of a generation end with it, and are split again.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "tests/support/eventually.hpp"
#include "tests/support/test_agent.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

void expect_sum(Communicator& group, float right) {
  std::vector<float> values(3000, static_cast<float>(group.world_rank(group.rank()) + 1));
  group.all_reduce(std::span(values));
  expect(values.front() == right && values.back() == right, "a sum");
}

}  // namespace

TEST_CASE("groups: a rank that is asked to give up its wait names its peer only after half of the time") {
  for (bool const long_wait : {false, true}) {
    for (char const* const nodes : {"aa", "ab"}) {
      ForkedStore const store;
      TestAgent agent;
      setenv("CXXRUN_OP_TIMEOUT", "4", 1);
      auto const ends = run_with_agent(
          2,
          [&](int rank) {
            auto comm = init_surviving(agent, store, rank, nodes);
            auto group = comm.split(0);
            if (rank == 1) {
              or_throw(store.client().wait({"thrown"}, kGuard));  // in another group, or asleep
              return std::string();
            }
            or_throw(store.client().set("split", ""));
            auto const failure = call_until_failure(*group);
            or_throw(store.client().set("thrown", ""));
            expect(failure.why() == (long_wait ? PeerFailure::Why::timeout : PeerFailure::Why::stopped),
                   failure.what());
            expect(failure.rank() == (long_wait ? 1 : -1), "whom it names");
            expect(failure.after() < std::chrono::seconds(4), "before its time");
            return std::string();
          },
          [&](auto const&) {
            auto workers = agent.welcome(2);
            auto& page = *workers[0].page;
            or_throw(store.client().wait({"split"}, kGuard));  // in which it waits, too
            CHECK(eventually([&] { return page.elsewhere != 0; }));
            std::this_thread::sleep_for(Millis(long_wait ? 2800 : 0));
            page.asked.store(1);
            workers[0].ring();
            CHECK(eventually([&] { return page.answered == 1; }));
            CHECK(page.heard == 1);
            workers[0].hear();  // until it has ended
            CHECK(page.lost_in == (long_wait ? 1 : 0));
          });
      unsetenv("CXXRUN_OP_TIMEOUT");
      INFO(nodes << (long_wait ? ", after half of its time" : ", at once"));
      check_all_returned(ends);
    }
  }
}

TEST_CASE("groups: who waits in split() for one that does not come waits as in a call, and names it") {
  enum class Asked { no, early, late };
  struct Case {
    Asked asked;
    int late;  // the rank that does not come: rank 0 would hand the node's memory to the other
    bool survives = true;
  };
  for (auto const& [asked, late, survives] : {Case{Asked::no, 1},
                                              {Asked::no, 0},
                                              {Asked::early, 1},
                                              {Asked::late, 1},
                                              {Asked::early, 1, false},
                                              {Asked::late, 1, false}}) {
    for (char const* const nodes : {"aa", "ab"}) {
      ForkedStore const store;
      TestAgent agent;
      bool const names = asked != Asked::early;
      setenv("CXXRUN_OP_TIMEOUT", asked == Asked::no ? "1" : "8", 1);
      std::string const fault =
          "rank=" + std::to_string(late) + ",call=3,at=leave,do=stop";  // the last call of split()
      setenv("CXXRUN_FAULT", fault.c_str(), 1);
      auto const other = static_cast<std::size_t>(1 - late);
      auto const ends = run_with_agent(
          2,
          [&, late = late, survives = survives](int rank) {
            auto comm = init_with_agent(agent, store, rank, nodes, 1, survives);
            try {
              static_cast<void>(comm.split(0));
            } catch (PeerFailure const& failure) {
              expect(failure.why() == (names ? PeerFailure::Why::timeout : PeerFailure::Why::stopped), failure.what());
              expect(failure.rank() == (names ? late : -1), "whom it names");
              expect(comm.can_rebuild() == survives, "whether it can go on");
              return std::string("thrown");
            }
            return std::string("split");
          },
          [&, late = late, asked = asked](auto const& pids) {
            auto workers = agent.welcome(2);
            auto& page = *workers[other].page;
            CHECK(eventually([&] { return page.elsewhere != 0 && page.done == 3; }));
            CHECK(page.elsewhere == 1);  // not in a call of the world, but still waiting
            std::this_thread::sleep_for(Millis(asked == Asked::late ? 5600 : 0));
            if (asked != Asked::no) {
              page.asked.store(1);
              workers[other].ring();
            }
            workers[other].hear();                                 // until it has ended
            CHECK(page.answered == (asked == Asked::no ? 0 : 1));  // otherwise it would be killed as hung
            CHECK(page.elsewhere == 1);
            CHECK(page.lost_in == (names ? 1 : 0));
            CHECK((page.lost & 0xffff'ffffU) == (names ? static_cast<unsigned>(late) : 0));
            kill(pids[static_cast<std::size_t>(late)], SIGKILL);
          });
      unsetenv("CXXRUN_OP_TIMEOUT");
      unsetenv("CXXRUN_FAULT");
      INFO(nodes << " " << static_cast<int>(asked) << " " << late << " " << survives);
      CHECK(ends[other].said == "thrown");
    }
  }
}

TEST_CASE("groups: after rebuild() the old ones say so, and new ones are split") {
  for (char const* const nodes : {"aaa", "aab", "abc"}) {
    ForkedStore const store;
    TestAgent agent;
    auto const ends = run_with_agent(
        4,
        [&](int process) {
          if (process == 3) {
            or_throw(store.client().wait({"replace"}, kGuard));
          }
          auto comm =
              process == 3 ? init_surviving(agent, store, 2, nodes, 2) : init_surviving(agent, store, process, nodes);
          auto low = comm.split(comm.rank() < 2 ? 0 : 1);
          auto high = comm.split(comm.rank() > 0 ? 0 : 1);
          if (process < 3) {
            expect_sum(*low, 3);
            expect_sum(*high, comm.rank() > 0 ? 5 : 1);
            expect(!low->can_rebuild() && comm.can_rebuild(), "who can rebuild");
            expect(has(words([&] { low->rebuild(); }), "call that of the Communicator that was split"), "whose it is");
          }
          if (process == 2) {
            or_throw(store.client().wait({"ready 0", "ready 1"}, kGuard));
            raise(SIGKILL);
          }
          if (process < 2) {
            or_throw(store.client().set("ready " + std::to_string(process), ""));
            auto const failure = call_until_failure(process == 0 ? *low : *high);  // rank 0 waits for rank 1
            expect(failure.rank() == 2, failure.what());
            comm.rebuild();
            for (Communicator* const old : {&*low, &*high}) {
              expect(has(words([&] { old->barrier(); }), "after rebuild() split the Communicator again"), "the old");
              expect(has(words([&] {
                           float value = 1;
                           old->start_all_reduce(&value, &value, 1, DType::f32).wait();
                         }),
                         "in a group of generation 1, which has ended"),
                     "the old in the background");
            }
            low = comm.split(comm.rank() < 2 ? 0 : 1);
            high = comm.split(comm.rank() > 0 ? 0 : 1);
          }
          expect(low->generation() == 2, "the new one's generation");
          expect_sum(*low, 3);
          expect_sum(*high, comm.rank() > 0 ? 5 : 1);
          comm.barrier();
          return std::string("trained");
        },
        [&](auto const&) {
          auto workers = agent.welcome(3);
          for (int rank : {0, 1}) {
            auto const parked = workers[static_cast<std::size_t>(rank)].parked();
            CHECK(has(parked.why, "rank 2 on host_"));
          }
          for (int rank : {0, 1}) {
            workers[static_cast<std::size_t>(rank)].say(resume(store, 2, rank, nodes));
          }
          or_throw(store.client().set("replace", ""));
          auto fresh = agent.accept();
          agent.welcome(fresh);
          workers[2] = std::move(fresh);
          workers[2].hear();  // until it has ended
        });
    for (int process : {0, 1, 3}) {
      INFO(nodes << " " << ends[static_cast<std::size_t>(process)].said);
      CHECK(ends[static_cast<std::size_t>(process)].said == "trained");
    }
  }
}
