// Groups of a Communicator on NCCL, through the plugin and the double: each has its own NCCL communicator.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include "cxxrun/gradient_synchronizer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/gpu_world.hpp"
#include "tests/support/test_agent.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// The sum of rank + 1 over the world's ranks in `group`, in device memory and in host memory, and one that all gather.
void expect_sums(Communicator& group) {
  float right = 0;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    right += static_cast<float>(group.world_rank(rank) + 1);
  }
  auto const mine = static_cast<float>(group.world_rank(group.rank()) + 1);
  auto arena = group.arena(3 * kCount * sizeof(float) + 3 * Arena::kAlignment);
  auto const first = arena.allocate<float>(kCount);
  auto const second = arena.allocate<float>(kCount);
  auto const all = arena.allocate<float>(static_cast<std::size_t>(group.world_size()));
  std::fill(first.begin(), first.end(), mine);  // the double's device memory
  std::fill(second.begin(), second.end(), mine);
  group.all_reduce(first);
  auto work = group.start_all_reduce(second.data(), second.data(), kCount, DType::f32);
  work.wait();
  group.all_gather(first.data(), all.data(), 1, DType::f32);
  std::vector<float> own(3, mine);
  group.all_reduce(std::span(own));
  expect(first.back() == right && second.back() == right && own[2] == right, "a sum in a group");
  expect(all.back() == right, "what another rank has");
  expect(has(group.describe(), "NCCL 2.28.9 on "), "who carries it out");
}

/// The failure of the calls of `comm` on device memory.
std::string end_of(Communicator& comm) {
  try {
    auto arena = comm.arena(kCount * sizeof(float));
    auto const values = arena.allocate<float>(kCount);
    for (;;) {
      comm.start_all_reduce(values.data(), values.data(), kCount, DType::f32).wait();
    }
  } catch (PeerFailure const& failure) {
    return named_by(failure);
  } catch (Failure const& failure) {
    return failure.what();
  }
}

}  // namespace

TEST_CASE("gpu groups: rows, columns, single ranks and groups of groups, used in turns with the whole", "[process]") {
  for (char const* const nodes : {"aaaa", "aabb", "abab", "aaab"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(4, [&](int rank) {
      auto comm = init_on_device(store, rank, nodes);
      auto row = comm.split(rank / 2);
      auto column = comm.split(rank % 2, -rank);
      auto single = row->split(rank);
      auto most = comm.split(rank == 2 ? std::nullopt : std::optional(0));
      expect(column->world_rank(0) == rank % 2 + 2, "the order that was asked for");
      expect(most.has_value() == (rank != 2), "no color, no group");
      for (int i = 0; i < 2; ++i) {
        for (Communicator* const each : {&*row, &comm, &*column, &*single}) {
          expect_sums(*each);
        }
      }
      if (most) {
        expect_sums(*most);
      }
      comm.barrier();
      return std::string();
    }));
  }
}

TEST_CASE(
    "gpu groups: a device that is open is opened beside a capture and busy kernels, with nothing that waits for it",
    "[process]") {
  ForkedStore const store;
  check_all_returned(run_ranks(2, [&](int rank) {
    auto comm = init_on_device(store, rank, "aa");
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    auto const kernels = cxxrun_cuda_double_calls("kernel");
    auto const freed = cxxrun_cuda_double_calls("cudaFree");
    auto group = comm.split(0);
    expect(cxxrun_cuda_double_calls("kernel") == kernels, "no kernel is launched to load it");
    expect(cxxrun_cuda_double_calls("cudaFree") == freed, "no memory is given back");
    cudaGraph_t graph = nullptr;
    expect(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "the capture goes on");
    expect_sums(*group);
    comm.barrier();
    return std::string();
  }));
}

TEST_CASE("gpu groups: gradients are averaged over a group, on the device", "[process]") {
  ForkedStore const store;
  check_all_returned(run_ranks(4, [&](int rank) {
    auto comm = init_on_device(store, rank, "abab");
    auto column = comm.split(rank % 2);
    GradientSynchronizer sync(*column, {{"w", 300}, {"b", 7}});
    expect(sync.on_device(), "where gradients are");
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i : {0U, 1U}) {
        auto const gradient = sync.gradient<float>(i);
        std::fill(gradient.begin(), gradient.end(), static_cast<float>(rank));
        sync.mark_ready(i);
      }
      sync.wait();
      expect(sync.gradient<float>(0)[299] == static_cast<float>(rank % 2) + 1, "a mean");
    }
    comm.barrier();
    return std::string();
  }));
}

TEST_CASE("gpu groups: a death ends the calls of all groups, also of ranks that had no group with the dead one",
          "[process]") {
  for (char const* const nodes : {"aaaa", "aabb", "abab", "abcd"}) {
    ForkedStore const store;
    auto const ends = run_ranks(4, [&](int rank) {
      auto comm = init_on_device(store, rank, nodes);
      auto row = comm.split(rank / 2);
      auto column = comm.split(rank % 2);
      auto single = comm.split(rank);
      die_when_ready(store, rank, 3, 4);
      // Rank 0 waits for rank 1, which waits for the dead rank.
      std::string const said = end_of(rank == 1 ? *column : *row);
      for (Communicator* const other : {&*row, &*column, &*single, &comm}) {
        std::string const end = end_of(*other);
        expect(end == said, end.c_str());
      }
      return said;
    });
    for (std::size_t const rank : {0U, 1U, 2U}) {
      INFO(nodes << " " << rank);
      CHECK(ends[rank].said == std::string("0 rank 3 on host_") + nodes[3]);
    }
  }
}

TEST_CASE("gpu groups: what NCCL or nobody can do in one group ends the calls of the others, in the same words",
          "[process]") {
  struct Case {
    char const* script;
    char const* says;
  };
  for (auto const& [script, says] :
       std::vector<Case>{{"devices=4,hang=0",
                          "disagree about the root: rank 2 called broadcast of 8 f32 from rank 0; rank 3 called "},
                         {"devices=4,rank=3,error=0", "rank 3 on host_b: a call on device memory: NCCL: "}}) {
    bool const differs = has(says, "disagree");
    ForkedStore const store;
    auto const ends = run_ranks(4, [&](int rank) {
      setenv("CXXRUN_OP_TIMEOUT", differs ? "0.5" : "60", 1);
      auto comm = init_on_device(store, rank, "abab", script);
      auto upper = comm.split(rank / 2);
      auto low = comm.split(rank % 2);
      if (rank < 2) {
        or_throw(store.client().wait({"ended 2", "ended 3"}, std::chrono::duration_cast<Millis>(kGuard)));
        return end_of(*low);
      }
      auto arena = upper->arena(64);
      auto const values = arena.allocate<float>(8);
      try {
        upper->broadcast(values.data(), 8, DType::f32, upper->rank());
      } catch (Failure const& failure) {
        or_throw(store.client().set("ended " + std::to_string(rank), ""));
        std::string const end = end_of(comm);
        expect(end == failure.what(), end.c_str());
        return end;
      }
      return std::string("sent");
    });
    for (auto const& end : ends) {
      INFO(script << ": " << end.said);
      CHECK(has(end.said, says));
    }
  }
}

TEST_CASE("gpu groups: ranks that ask for arenas of different sizes are named as the world numbers them", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(4, [&](int rank) {
    auto comm = init_on_device(store, rank, "abab");
    auto upper = comm.split(rank / 2);
    try {
      static_cast<void>(upper->arena(rank == 3 ? 8192 : 4096));
      comm.barrier();
    } catch (Failure const& failure) {
      return std::string(failure.what());
    }
    return std::string("a barrier");
  });
  for (auto const& end : ends) {
    CHECK(has(end.said, "the size: rank 2 called arena of 4096 bytes; rank 3 called arena of 8192 bytes"));
  }
}

TEST_CASE("gpu groups: who waits for NCCL to connect its group gives up when the agent asks", "[process]") {
  for (bool const late : {false, true}) {
    for (char const* const nodes : {"aa", "ab"}) {
      ForkedStore const store;
      TestAgent agent;
      auto const ends = run_with_agent(
          2,
          [&](int rank) {
            use_double("devices=4");
            setenv("CXXRUN_OP_TIMEOUT", "4", 1);
            setenv("CXXRUN_FAULT", "rank=1,call=8,at=leave,do=stop",
                   1);  // the last call before NCCL connects the group
            auto comm = init_surviving(agent, store, rank, nodes);
            try {
              static_cast<void>(comm.split(0));
            } catch (PeerFailure const& failure) {
              expect(failure.why() == (late ? PeerFailure::Why::timeout : PeerFailure::Why::stopped), failure.what());
              expect(failure.rank() == (late ? 1 : -1), "whom it names");
              return std::string("thrown");
            }
            return std::string("split");
          },
          [&](auto const& pids) {
            auto workers = agent.welcome(2);
            auto& page = *workers[0].page;
            siginfo_t stopped{};
            waitid(P_PID, static_cast<id_t>(pids[1]), &stopped, WSTOPPED | WNOWAIT);
            std::this_thread::sleep_for(Millis(late ? 2800 : 300));
            CHECK(page.done == 3);
            CHECK(page.elsewhere == 1);
            page.asked.store(1);
            workers[0].ring();
            workers[0].hear();  // until it has ended
            CHECK(page.answered == 1);
            CHECK(page.lost_in == (late ? 1 : 0));
            kill(pids[1], SIGKILL);
          });
      INFO(nodes << (late ? ", after half of its time: " : ", at once: ") << ends[0].said);
      CHECK(ends[0].said == "thrown");
    }
  }
}

TEST_CASE("gpu groups: survivors split the world anew after rebuild()", "[process]") {
  ForkedStore const store;
  TestAgent agent;
  auto const ends = run_with_agent(
      4,
      [&](int process) -> std::string {
        if (process == 3) {
          or_throw(store.client().wait({"replace"}, std::chrono::duration_cast<Millis>(kGuard)));
        }
        use_double("devices=4");
        auto comm = init_surviving(agent, store, std::min(process, 2), "aab", process == 3 ? 2 : 1);
        auto low = comm.split(comm.rank() < 2 ? 0 : 1);
        auto high = comm.split(comm.rank() > 0 ? 0 : 1);
        if (process < 3) {
          expect_sums(*low);
          expect_sums(*high);
          die_when_ready(store, process, 2, 3);
          auto const end = end_of(process == 0 ? *low : *high);  // rank 0 waits for rank 1
          expect(end == "0 rank 2 on host_b", end.c_str());
          comm.rebuild();
          low = comm.split(comm.rank() < 2 ? 0 : 1);
          high = comm.split(comm.rank() > 0 ? 0 : 1);
        }
        expect_sums(*low);
        expect_sums(*high);
        comm.barrier();
        return std::to_string(low->generation());
      },
      [&](auto const&) {
        auto workers = agent.welcome(3);
        for (int rank : {0, 1}) {
          CHECK(has(workers[static_cast<std::size_t>(rank)].parked().why, "rank 2 on host_b"));
        }
        for (int rank : {0, 1}) {
          workers[static_cast<std::size_t>(rank)].say(resume(store, 2, rank, "aab"));
        }
        or_throw(store.client().set("replace", ""));
        auto fresh = agent.accept();
        agent.welcome(fresh);
        fresh.hear();  // until it has ended
      });
  for (int process : {0, 1, 3}) {
    INFO(ends[static_cast<std::size_t>(process)].said);
    CHECK(ends[static_cast<std::size_t>(process)].said == "2");
  }
}
