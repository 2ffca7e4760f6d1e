// Survivors in place on NCCL, through the plugin and the double: the same processes, devices and contexts in several
// generations, with an agent played by the test.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include "src/runtime/gpu/choice.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/gpu_world.hpp"
#include "tests/support/test_agent.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// The sum over the ranks of rank + 1 in device memory: a call that waits, one in the background, and one of the
/// host's.
void expect_device_sums(Communicator& comm) {
  float const right = static_cast<float>(comm.world_size() * (comm.world_size() + 1)) / 2;
  auto arena = comm.arena(2 * kCount * sizeof(float) + Arena::kAlignment);
  auto const first = arena.allocate<float>(kCount);
  auto const second = arena.allocate<float>(kCount);
  std::fill(first.begin(), first.end(), static_cast<float>(comm.rank() + 1));  // the double's device memory
  std::fill(second.begin(), second.end(), static_cast<float>(comm.rank() + 1));
  comm.all_reduce(first);
  auto work = comm.start_all_reduce(second.data(), second.data(), kCount, DType::f32);
  work.wait();
  std::vector<float> own(3, static_cast<float>(comm.rank() + 1));
  comm.all_reduce(std::span(own));
  expect(first.back() == right && second.back() == right && own[2] == right, "a sum");
}

void queue_calls(Communicator& comm, int times) {
  auto arena = comm.arena(kCount * sizeof(float));
  auto const values = arena.allocate<float>(kCount);
  for (int i = 0; i < times; ++i) {
    auto work = comm.start_all_reduce(values.data(), values.data(), kCount, DType::f32);
    work.wait();
  }
}

/// Queues calls on the device until a peer fails.
PeerFailure queue_until_failure(Communicator& comm) {
  try {
    for (;;) {
      queue_calls(comm, 1'000'000);
    }
  } catch (PeerFailure const& failure) {
    return failure;
  }
}

Communicator surviving_on_device(TestAgent const& agent, ForkedStore const& store, int rank, std::string const& nodes,
                                 std::uint64_t generation = 1, std::string const& script = "devices=4") {
  use_double(script);
  return init_surviving(agent, store, rank, nodes, generation);
}

std::size_t descriptors() {
  auto const entries = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace

TEST_CASE("gpu survival: when a rank dies the others make a new communicator with a fresh one", "[process]") {
  struct Case {
    char const* nodes;
    char const* script;
  };
  for (auto const& [nodes, script] : {Case{"aaa", "devices=4"}, Case{"aab", "devices=4"}, Case{"abc", "devices=4"},
                                      Case{"aaa", "devices=4,rest=3600"},  // the abort does not come back
                                      Case{"aaa", "devices=4,rest=peers"}, Case{"aab", "devices=4,nccl=22907"}}) {
    ForkedStore const store;
    TestAgent agent;
    auto const ends = run_with_agent(
        4,
        [&, nodes = nodes, script = script](int process) -> std::string {
          if (process == 3) {
            or_throw(store.client().wait({"replace"}, std::chrono::duration_cast<Millis>(kGuard)));
          }
          auto comm = surviving_on_device(agent, store, std::min(process, 2), nodes, process == 3 ? 2 : 1, script);
          expect_device_sums(comm);
          if (process == 2) {
            queue_calls(comm, 1);  // by then the others wait for nothing else
            raise(SIGKILL);
          }
          if (process < 2) {
            auto const failure = queue_until_failure(comm);
            expect(failure.rank() == 2, failure.what());
            comm.rebuild();
            expect_device_sums(comm);
          }
          comm.barrier();
          return std::to_string(comm.generation()) + " " + std::to_string(comm.world_size());
        },
        [&, nodes = nodes](auto const&) {
          auto workers = agent.welcome(3);
          for (int rank : {0, 1}) {
            CHECK(workers[static_cast<std::size_t>(rank)].parked().generation == 1);
          }
          for (int rank : {0, 1}) {
            workers[static_cast<std::size_t>(rank)].say(resume(store, 2, rank, nodes));
          }
          or_throw(store.client().set("replace", ""));
          auto fresh = agent.accept();
          agent.welcome(fresh);
          fresh.hear();  // until it has ended
        });
    for (int process : {0, 1, 3}) {
      INFO(nodes << " " << script << " " << ends[static_cast<std::size_t>(process)].said);
      CHECK(ends[static_cast<std::size_t>(process)].said == "2 3");
    }
  }
}

TEST_CASE("gpu survival: a device that is lost between two generations ends the process, for the others' sake",
          "[process]") {
  ForkedStore const store;
  TestAgent agent;
  auto const ends = run_with_agent(
      2,
      [&](int process) -> std::string {
        auto comm = surviving_on_device(agent, store, process, "aa");
        if (process == 1) {
          queue_calls(comm, 1);
          raise(SIGKILL);
        }
        queue_until_failure(comm);
        cxxrun_cuda_double_lose_context();
        comm.rebuild();
        return "rebuilt";
      },
      [&](auto const&) {
        auto workers = agent.welcome(2);
        workers[0].parked();
        workers[0].say(resume(store, 2, 0, "aa"));
      });
  INFO(ends[0].said);
  CHECK(WIFEXITED(ends[0].status));
  CHECK(WEXITSTATUS(ends[0].status) == gpu::kDeviceLost);
}

TEST_CASE("gpu survival: the world shrinks, to one rank in the end", "[process]") {
  ForkedStore const store;
  TestAgent agent;
  auto const ends = run_with_agent(
      3,
      [&](int process) -> std::string {
        auto comm = surviving_on_device(agent, store, process, "aaa");
        for (int last = 2; last > 0; --last) {
          expect_device_sums(comm);
          if (process == last) {
            queue_calls(comm, 1);
            raise(SIGKILL);
          }
          queue_until_failure(comm);
          comm.rebuild();
        }
        expect_device_sums(comm);
        return std::to_string(comm.generation()) + " " + std::to_string(comm.world_size());
      },
      [&](auto const&) {
        auto workers = agent.welcome(3);
        for (int world = 2; world > 0; --world) {
          auto const generation = static_cast<std::uint64_t>(4 - world);
          for (int rank = 0; rank < world; ++rank) {
            workers[static_cast<std::size_t>(rank)].parked();
          }
          for (int rank = 0; rank < world; ++rank) {
            workers[static_cast<std::size_t>(rank)].say(
                resume(store, generation, rank, std::string(static_cast<std::size_t>(world), 'a')));
          }
        }
        workers[0].hear();
      });
  CHECK(ends[0].said == "3 1");
}

TEST_CASE("gpu survival: generations leave no descriptor behind", "[process]") {
  constexpr std::uint64_t kGenerations = 12;
  ForkedStore const store;
  TestAgent agent;
  auto const ends = run_with_agent(
      2,
      [&](int rank) -> std::string {
        auto comm = surviving_on_device(agent, store, rank, "aa");
        std::size_t early = 0;
        while (comm.generation() < kGenerations) {
          expect_device_sums(comm);
          early = comm.generation() == 3 ? descriptors() : early;
          queue_until_failure(comm);
          comm.rebuild();
        }
        expect_device_sums(comm);
        comm.barrier();
        std::size_t const late = descriptors();
        return late <= early ? "none" : std::to_string(early) + " and then " + std::to_string(late);
      },
      [&](auto const&) {
        auto workers = agent.welcome(2);
        for (std::uint64_t generation = 1; generation < kGenerations; ++generation) {
          for (auto const& worker : workers) {
            worker.await_call(generation, 7);  // the second one on the device: the page shows those, too
          }
          for (auto const& worker : workers) {
            worker.over(generation);
          }
          for (auto& worker : workers) {
            worker.parked();
          }
          for (int rank : {0, 1}) {
            workers[static_cast<std::size_t>(rank)].say(resume(store, generation + 1, rank, "aa"));
          }
        }
        for (auto& worker : workers) {
          worker.hear();
        }
      });
  CHECK(ends[0].said == "none");
  CHECK(ends[1].said == "none");
}
