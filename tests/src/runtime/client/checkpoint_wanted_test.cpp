// All ranks get the same answer, whenever each of them receives the request for a checkpoint.
#include <algorithm>
#include <csignal>
#include <random>

#include "tests/support/eventually.hpp"
#include "tests/support/test_agent.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// Trains until the job ends; returns the steps in which it saved. The number of saves is reported one step later: from
/// then on a request counts as a new one.
std::string saves_of(Communicator& comm) {
  std::string steps;
  std::uint64_t saves = 0;
  float gradient = 1;
  for (int step = 1;; ++step) {
    comm.all_reduce(std::span(&gradient, 1));
    if (comm.checkpoint_wanted()) {
      steps += std::to_string(step) + " ";
      ++saves;
    } else {
      comm.report_step(saves);
    }
    if (comm.job_ends()) {
      comm.barrier();
      return steps;
    }
  }
}

void let_pass(std::uint32_t turns) {
  for (std::uint32_t i = 0; i < turns; ++i) {
    std::this_thread::yield();
  }
}

/// Waits until all ranks have saved more often than `before`, and equally often; returns how often.
std::uint64_t await_save(std::vector<TestAgent::Worker> const& workers, std::uint64_t before) {
  std::uint64_t saves = 0;
  bool const saved = eventually([&] {
    saves = workers[0].page->step;
    return saves > before &&
           std::all_of(workers.begin(), workers.end(), [&](auto const& worker) { return worker.page->step == saves; });
  });
  if (saved) {
    return saves;
  }
  throw std::runtime_error("nobody answers a request");
}

}  // namespace

TEST_CASE("checkpoint_wanted: all ranks save in the same steps, whichever of them are asked and when") {
  constexpr std::uint64_t kRequests = 60;
  for (char const* const nodes : {"aaaa", "aabb"}) {
    ForkedStore const store;
    TestAgent agent;
    auto const ends = run_with_agent(
        4,
        [&](int rank) {
          auto comm = init_surviving(agent, store, rank, nodes);
          return saves_of(comm);
        },
        [&](auto const&) {
          auto workers = agent.welcome(4);
          std::minstd_rand random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): like the last run's
          for (std::uint64_t saves = 0, request = 0; request < kRequests; ++request) {
            for (std::size_t i = 0; i < (request % 3 == 0 ? 1 : workers.size()); ++i) {
              let_pass(random() % 64);
              workers[(i + request) % workers.size()].page->checkpoints.fetch_add(1);
            }
            saves = await_save(workers, saves);
          }
          for (auto const& worker : workers) {
            let_pass(random() % 64);
            worker.ends();
          }
          workers[0].hear();  // until it has ended
        });
    for (auto const& end : ends) {
      INFO(nodes);
      CHECK(end.returned());
      CHECK(std::count(end.said.begin(), end.said.end(), ' ') > static_cast<std::ptrdiff_t>(kRequests));
      CHECK(end.said == ends[0].said);
    }
  }
}

TEST_CASE("checkpoint_wanted: what was asked when a rank died is answered in the next generation, on all ranks") {
  char const* const nodes = "aab";
  ForkedStore const store;
  TestAgent agent;
  auto const set = [&](char const* key) { or_throw(store.client().set(key, "")); };
  auto const await = [&](char const* key) {
    or_throw(store.client().wait({key}, std::chrono::duration_cast<Millis>(kGuard)));
  };
  auto const ends = run_with_agent(
      4,
      [&](int process) {
        if (process == 3) {
          await("replace");
        }
        auto comm =
            process == 3 ? init_surviving(agent, store, 2, nodes, 2) : init_surviving(agent, store, process, nodes);
        if (process < 3) {
          expect(!comm.checkpoint_wanted(), "nobody asked");
          expect(!comm.checkpoint_wanted(), "nobody asked yet");
          set(process == 0 ? "called 0" : process == 1 ? "called 1" : "called 2");
          await("asked");
        }
        if (process == 2) {
          raise(SIGKILL);
        }
        if (process < 2) {
          try {
            for (;;) {
              expect(!comm.checkpoint_wanted(), "a rank has not called");
            }
          } catch (PeerFailure const& failure) {
            expect(failure.rank() == 2, failure.what());
          }
          comm.rebuild();
        }
        expect(!comm.checkpoint_wanted(), "nothing is known yet");
        expect(comm.checkpoint_wanted() && !comm.job_ends(), "asked");
        expect(!comm.checkpoint_wanted(), "once");
        comm.barrier();
        return std::string("saved");
      },
      [&](auto const&) {
        auto workers = agent.welcome(3);
        for (char const* const key : {"called 0", "called 1", "called 2"}) {
          await(key);
        }
        workers[1].page->checkpoints.fetch_add(1);
        set("asked");
        for (int rank : {0, 1}) {
          workers[static_cast<std::size_t>(rank)].parked();
        }
        for (int rank : {0, 1}) {
          workers[static_cast<std::size_t>(rank)].say(resume(store, 2, rank, nodes));
        }
        set("replace");
        auto fresh = agent.accept();
        agent.welcome(fresh);
        fresh.hear();  // until it has ended
      });
  for (std::size_t const process : {0U, 1U, 3U}) {
    CHECK(ends[process].said == "saved");
  }
}
