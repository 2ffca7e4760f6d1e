// Survivors in place: the same processes in several generations, with an agent played by the test.
#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sys/wait.h>
#include <unistd.h>

#include "cxxrun/gradient_synchronizer.hpp"
#include "src/base/os/thread.hpp"
#include "src/runtime/comm/join_record.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/test_agent.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// The sum over the ranks of rank + 1, through an arena, a buffer elsewhere and the background.
void expect_sums(Communicator& comm) {
  float const right = static_cast<float>(comm.world_size() * (comm.world_size() + 1)) / 2;
  auto arena = comm.arena(40'000);
  auto const shared = arena.allocate<float>(10'000);
  std::vector<float> own(3, static_cast<float>(comm.rank() + 1));
  std::fill(shared.begin(), shared.end(), own[0]);
  auto work = comm.start_all_reduce(own.data(), own.data(), own.size(), DType::f32);
  comm.all_reduce(shared);
  work.wait();
  expect(shared.front() == right && shared.back() == right && own[2] == right, "a sum");
}

void set(ForkedStore const& store, char const* key) {
  or_throw(store.client().set(key, ""));
}
void await(ForkedStore const& store, char const* key) {
  or_throw(store.client().wait({key}, std::chrono::duration_cast<Millis>(kGuard)));
}

std::size_t lines(char const* path) {
  std::ifstream file(path);
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}
std::size_t entries(char const* path) {
  std::size_t count = 0;
  for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator(path)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("survival: when a rank dies the others go on in their processes with a fresh one") {
  for (char const* const nodes : {"aaa", "aab", "abc"}) {
    ForkedStore const store;
    TestAgent agent;
    auto const ends = run_with_agent(
        4,
        [&](int process) {
          if (process == 3) {
            await(store, "replace");
          }
          auto comm =
              process == 3 ? init_surviving(agent, store, 2, nodes, 2) : init_surviving(agent, store, process, nodes);
          expect(comm.can_rebuild(), "it can");
          if (process < 3) {
            expect_sums(comm);
          }
          if (process == 2) {
            await(store, "summed 0");  // a rank with its sum may end before the others have theirs
            await(store, "summed 1");
            raise(SIGKILL);
          }
          if (process < 2) {
            set(store, process == 0 ? "summed 0" : "summed 1");
            auto const failure = call_until_failure(comm);
            expect(failure.rank() == 2 && failure.generation() == 1, failure.what());
            comm.rebuild();
          }
          expect(comm.generation() == 2 && comm.env().generation == 2 && comm.world_size() == 3, "the new world");
          expect(comm.rank() == std::min(process, 2), "its rank");
          expect_sums(comm);
          comm.barrier();
          return comm.host(2);
        },
        [&](auto const&) {
          auto workers = agent.welcome(3);
          CHECK(workers[0].me == worker::Register{1, 0, true});
          for (int rank : {0, 1}) {
            auto const parked = workers[static_cast<std::size_t>(rank)].parked();
            CHECK(parked.generation == 1);
            CHECK(has(parked.why, "rank 2 on host_"));
          }
          for (int rank : {0, 1}) {
            workers[static_cast<std::size_t>(rank)].say(resume(store, 2, rank, nodes));
          }
          set(store, "replace");
          auto fresh = agent.accept();
          agent.welcome(fresh);
          CHECK(fresh.me == worker::Register{2, 2, true});
          workers[2] = std::move(fresh);
          workers[2].hear();  // until it has ended
        });
    for (int process : {0, 1, 3}) {
      INFO(nodes << " " << ends[static_cast<std::size_t>(process)].said);
      CHECK(ends[static_cast<std::size_t>(process)].said == std::string("host_") + nodes[2]);
    }
  }
}

TEST_CASE(
    "survival: the end of a generation reaches a rank that waits at once, and one that computes in its next call") {
  for (char const* const nodes : {"aa", "ab"}) {
    ForkedStore const store;
    TestAgent agent;
    TimePoint said;
    auto const ends = run_with_agent(
        2,
        [&](int rank) {
          auto comm = init_surviving(agent, store, rank, nodes);
          comm.barrier();
          if (rank == 1) {
            await(store, "thrown");  // computes
          }
          auto const failure = call_until_failure(comm);
          expect(failure.why() == PeerFailure::Why::stopped && failure.rank() == -1, failure.what());
          set(store, "thrown");
          auto const when = Clock::now().time_since_epoch().count();
          comm.rebuild();
          expect_sums(comm);
          comm.barrier();
          return std::to_string(when);
        },
        [&](auto const&) {
          auto workers = agent.welcome(2);
          workers[0].await_call(1, 2);
          CHECK(eventually([&] { return workers[1].page->done >= 1; }));  // it computes
          said = Clock::now();
          for (auto const& worker : workers) {
            worker.over(1);
          }
          for (int rank : {0, 1}) {
            CHECK(has(workers[static_cast<std::size_t>(rank)].parked().why, "the launcher ended the generation"));
          }
          for (int rank : {0, 1}) {
            workers[static_cast<std::size_t>(rank)].say(resume(store, 2, rank, nodes));
          }
          workers[0].hear();
        });
    check_all_returned(ends);
    auto const took = std::chrono::nanoseconds(std::stoll(ends[0].said)) - said.time_since_epoch();
    INFO(nodes << ": " << took.count() / 1000 << " us");
    CHECK(took < std::chrono::seconds(2));
  }
}

TEST_CASE("survival: a generation that ends while its ranks still meet is left, wherever they wait") {
  // Rank 1 never comes, or dies after it has sent its record: the others wait in the store, or for it on the node.
  for (bool const comes : {false, true}) {
    for (char const* const nodes : {"aaa", "aba"}) {
      ForkedStore const store;
      TestAgent agent;
      auto const ends = run_with_agent(
          3,
          [&](int process) {
            if (process == 1) {
              if (!comes) {
                return std::string();
              }
              raise(SIGSTOP);
            }
            auto comm = init_surviving(agent, store, process, nodes);
            expect(comm.generation() == 2 && comm.world_size() == 2, "the next generation");
            expect_sums(comm);
            comm.barrier();
            return std::string();
          },
          [&](std::vector<pid_t> const& pids) {
            TestAgent::Worker first = agent.accept();
            TestAgent::welcome(first);
            TestAgent::Worker last = agent.accept();
            TestAgent::welcome(last);
            if (first.me.local_rank != 0) {
              std::swap(first, last);
            }
            auto client = store.client();
            auto const text = client.get("cxxrun//1/0/0/first").value();
            std::string const meeting = "cxxrun//1/0/0/" + std::to_string(comm::decode_record(text)->nonce);
            or_throw(client.wait({meeting + "/rank2"}));
            if (comes) {
              waitpid(pids[1], nullptr, WUNTRACED);
              kill(pids[1], SIGCONT);
              auto dead = agent.accept();
              TestAgent::welcome(dead);
              or_throw(client.wait({meeting + "/rank1"}));
              kill(pids[1], SIGKILL);
              or_throw(client.wait({meeting + "/roster"}));
            }
            first.over(1);
            last.over(1);
            CHECK(first.parked().generation == 1);
            CHECK(last.parked().generation == 1);
            first.say(resume(store, 2, 0, "aa"));
            last.say(resume(store, 2, 1, "aa"));
            first.hear();
          });
      for (int process : {0, 2}) {
        INFO(nodes << comes << ends[static_cast<std::size_t>(process)].said);
        CHECK(ends[static_cast<std::size_t>(process)].returned());
      }
    }
  }
}

TEST_CASE("survival: a world shrinks to one rank and grows again") {
  ForkedStore const store;
  TestAgent agent;
  auto const ends = run_with_agent(
      2,
      [&](int process) {
        if (process == 1) {
          await(store, "grow");
        }
        auto comm = init_surviving(agent, store, process, process == 0 ? "a" : "aa", process == 0 ? 1 : 2);
        if (process == 0) {
          expect_sums(comm);
          expect(comm.world_size() == 1, "alone");
          GradientSynchronizer sync(comm, {{"a", 8}});
          GradientSynchronizer kept(comm, {{"a", 8}});
          set(store, "alone");
          auto const failure = until_failure([&] {  // a world of one makes no call in a step
            sync.mark_ready(0);
            sync.wait();
          });
          expect(failure.why() == PeerFailure::Why::stopped && failure.generation() == 1, failure.what());
          until_failure([&] { static_cast<void>(comm.checkpoint_wanted()); });
          comm.rebuild();
          std::string refused;
          try {
            kept.set_weight(1);
          } catch (Failure const& why) {
            refused = why.what();
          }
          expect(has(refused, "a GradientSynchronizer of generation 1, which has ended"), refused.c_str());
        }
        expect(comm.world_size() == 2, "two");
        expect_sums(comm);
        if (process == 1) {
          await(store, "summed");
          raise(SIGKILL);
        }
        set(store, "summed");
        call_until_failure(comm);
        comm.rebuild();
        expect(comm.world_size() == 1 && comm.generation() == 3, "alone again");
        expect_sums(comm);
        return std::string();
      },
      [&](auto const&) {
        auto alone = std::move(agent.welcome(1).front());
        alone.await_call(1, 4);
        await(store, "alone");
        alone.over(1);
        alone.parked();
        alone.say(resume(store, 2, 0, "aa"));
        set(store, "grow");
        auto other = agent.accept();
        TestAgent::welcome(other);
        CHECK(alone.parked().generation == 2);
        alone.say(resume(store, 3, 0, "a"));
        alone.hear();
      });
  INFO(ends[0].said);
  CHECK(ends[0].returned());
}

TEST_CASE("survival: fifty generations leave no descriptor, thread or mapping behind") {
  constexpr std::uint64_t kGenerations = 50;
  for (char const* const nodes : {"aa", "ab"}) {
    ForkedStore const store;
    TestAgent agent;
    auto const ends = run_with_agent(
        2,
        [&](int rank) {
          auto comm = init_surviving(agent, store, rank, nodes);
          std::array<std::size_t, 3> before{};
          for (std::uint64_t generation = 1;; ++generation) {
            expect_sums(comm);
            comm.barrier();
            std::array<std::size_t, 3> const now{entries("/proc/self/fd"), entries("/proc/self/task"),
                                                 lines("/proc/self/maps")};
            if (generation == 10) {
              before = now;
            }
            if (generation == kGenerations) {
              expect(now[0] == before[0], "descriptors");
              expect(now[1] == before[1], "threads");
              return std::to_string(before[2]) + " " + std::to_string(now[2]);
            }
            comm.report_step(generation);
            call_until_failure(comm);
            comm.rebuild();
            expect(comm.generation() == generation + 1, "the next one");
          }
        },
        [&](auto const&) {
          auto workers = agent.welcome(2);
          for (std::uint64_t generation = 1; generation < kGenerations; ++generation) {
            for (auto const& worker : workers) {
              CHECK(eventually([&] { return worker.page->step >= generation; }));
              CHECK(worker.page->generation == generation);
            }
            workers[generation % 2].over(generation);  // the other one learns of it from its local peer
            for (auto& worker : workers) {
              CHECK(worker.parked().generation == generation);
            }
            for (int rank : {0, 1}) {
              workers[static_cast<std::size_t>(rank)].say(resume(store, generation + 1, rank, nodes));
            }
          }
          workers[0].hear();
        });
    for (auto const& end : ends) {
      INFO(end.said);
      REQUIRE(end.returned());
      // A sanitizer keeps memory for every thread that has existed.
      CHECK((kSanitized || std::stoi(end.said.substr(end.said.find(' '))) <= std::stoi(end.said) + 20));
    }
  }
}

TEST_CASE("survival: the memory of an old world stays, for this process alone, and its Communicator throws") {
  ForkedStore const store;
  TestAgent agent;
  check_all_returned(run_with_agent(
      2,
      [&](int rank) {
        auto comm = init_surviving(agent, store, rank, "aa");
        auto arena = comm.arena(4096);
        auto const values = arena.allocate<int>(1000);
        std::iota(values.begin(), values.end(), rank);
        comm.barrier();
        auto work = comm.start_all_reduce(values.data(), values.data(), 0, DType::i32);
        call_until_failure(comm);
        comm.rebuild();
        expect(values[999] == rank + 999, "still there");
        static_cast<void>(work.done());
        auto other = comm.arena(4096);
        auto const copy = other.allocate<int>(1000);
        std::copy(values.begin(), values.end(), copy.begin());
        comm.all_reduce(copy);
        expect(copy[999] == 2 * 999 + 1, "in use again");
        arena = {};
        comm.barrier();
        return std::string();
      },
      [&](auto const&) {
        auto workers = agent.welcome(2);
        for (auto const& worker : workers) {
          worker.await_call(1, 4);
        }
        for (auto const& worker : workers) {
          worker.over(1);
        }
        for (int rank : {0, 1}) {
          workers[static_cast<std::size_t>(rank)].parked();
          workers[static_cast<std::size_t>(rank)].say(resume(store, 2, rank, "aa"));
        }
        workers[0].hear();
      }));
}

TEST_CASE("survival: who cannot go on says why, and a failure is a failure as before") {
  ForkedStore const store;
  TestAgent agent;
  auto const ends = run_with_agent(
      2,
      [&](int rank) {
        setenv("CXXRUN_AGENT", rank == 0 ? agent.name().c_str() : "cxxrun-test-nobody", 1);
        Communicator::Options options;
        options.survive = rank == 1;  // rank 0 does not want to, rank 1 has no agent
        auto comm = init(store, rank, "aa", options);
        expect(!comm.can_rebuild(), "it cannot");
        expect(!comm.checkpoint_wanted(), "nobody asked");
        if (rank == 0) {
          set(store, "ask");
          await(store, "asked");
        }
        expect(!comm.checkpoint_wanted(), "nobody knows yet that rank 0 was asked");
        expect(comm.checkpoint_wanted(), "asked, on the rank without an agent too");
        expect(!comm.checkpoint_wanted(), "once");
        comm.barrier();
        comm.barrier();
        try {
          comm.rebuild();
        } catch (Failure const& failure) {
          return std::string(failure.what());
        }
        return std::string("nothing");
      },
      [&](auto const&) {
        auto workers = agent.welcome(1);
        CHECK_FALSE(workers[0].me.survives);
        await(store, "ask");
        workers[0].page->checkpoints.store(1);
        set(store, "asked");
        workers[0].hear();
      });
  for (int rank : {0, 1}) {
    CHECK(has(ends[static_cast<std::size_t>(rank)].said,
              "rank " + std::to_string(rank) + " on host_a: rebuild() needs Options::survive"));
  }
}

TEST_CASE("survival: a rank that the others waited for in vain ends, for nobody else tells the launcher") {
  ForkedStore const store;
  TestAgent agent;
  auto const ends = run_with_agent(
      2,
      [&](int rank) {
        setenv("CXXRUN_OP_TIMEOUT", "0.2", 1);
        auto comm = init_surviving(agent, store, rank, "aa");
        comm.barrier();
        if (rank == 1) {
          await(store, "given up");
        }
        auto const failure = call_until_failure(comm);
        expect(failure.why() == PeerFailure::Why::timeout && failure.rank() == 1, failure.what());
        expect(comm.can_rebuild() == (rank == 0), "who can go on");
        if (rank == 1) {
          return std::string("ends");
        }
        set(store, "given up");
        comm.rebuild();
        return std::to_string(comm.world_size());
      },
      [&](auto const&) {
        auto workers = agent.welcome(2);
        CHECK(has(workers[0].parked().why, "rank 1 on host_a did not arrive in time"));
        CHECK_FALSE(workers[1].hear());
        workers[0].say(resume(store, 2, 0, "a"));
        workers[0].hear();
      });
  CHECK(ends[0].said == "1");
  CHECK(ends[1].said == "ends");
}

TEST_CASE("survival: the job's end ends a parked process with a Failure") {
  ForkedStore const store;
  TestAgent agent;
  auto const ends = run_with_agent(
      1,
      [&](int rank) {
        auto comm = init_surviving(agent, store, rank, "a");
        call_until_failure(comm);
        comm.rebuild();
        return std::string("went on");
      },
      [&](auto const&) {
        auto workers = agent.welcome(1);
        workers[0].await_call(1, 1);
        workers[0].over(1);
        workers[0].parked();
        workers[0].ends();
        workers[0].hear();
      });
  CHECK(has(ends[0].said, "exception: the job ends: no generation follows generation 1"));
}

TEST_CASE("survival: what cannot be given up in time ends the process with 75") {
  auto const ends = run_ranks(2, [](int rank) {
    {
      os::Watchdog const watchdog(Millis(rank == 0 ? 1 : 60'000), "survival_test: as it should");
      if (rank == 0) {
        pause();
      }
    }
    return std::string("in time");
  });
  CHECK(WEXITSTATUS(ends[0].status) == 75);
  CHECK(ends[1].said == "in time");
}
