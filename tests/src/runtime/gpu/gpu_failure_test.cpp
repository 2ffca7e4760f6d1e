// Communicator on NCCL, through the plugin and the double: every rank is released and learns whose failure it was.
#include <csignal>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "src/base/os/thread.hpp"
#include "src/runtime/gpu/choice.hpp"
#include "src/runtime/gpu/nccl_peers.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/gpu_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

constexpr int kVictim = 1;

/// How a rank waits for its calls.
enum class Waits { blocking, work, elsewhere };

std::string named(PeerFailure const& failure) {
  return std::to_string(static_cast<int>(failure.why())) + " " + std::to_string(failure.rank()) + " " + failure.host();
}

/// Calls until it fails; returns that failure, and what a later call throws.
std::string call_until_failure(Communicator& comm, Waits waits) {
  auto arena = comm.arena(4096);
  auto const values = arena.allocate<float>(8);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  std::string said;
  for (int failures = 0; failures < 2;) {
    try {
      if (waits == Waits::blocking) {
        comm.all_reduce(values);
        continue;
      }
      auto work = comm.start_all_reduce(values.data(), values.data(), 8, DType::f32, ReduceOp::sum, Wire::same, 0.5F,
                                        Stream{stream});
      if (waits == Waits::elsewhere) {
        work.wait_on(Stream{stream});
        cudaStreamSynchronize(stream);
      }
      work.wait();
    } catch (PeerFailure const& failure) {
      said += (++failures > 1 ? ", " : "") + named(failure);
    }
  }
  return said;
}

}  // namespace

TEST_CASE("gpu: a rank that is killed is named by all others, however they wait", "[process]") {
  for (char const* const nodes : {"aaa", "aab", "abc"}) {
    for (auto const waits : {Waits::blocking, Waits::work, Waits::elsewhere}) {
      ForkedStore const store;
      auto const ends = run_ranks(3, [&](int rank) {
        setenv("CXXRUN_FAULT", "rank=1,call=8,at=enter,do=kill", 1);
        auto comm = init_on_device(store, rank, nodes);
        return call_until_failure(comm, waits);
      });
      std::string const name = std::string("0 1 host_") + nodes[kVictim];
      INFO(nodes << " " << static_cast<int>(waits) << ": " << ends[0].said << " / " << ends[2].said);
      CHECK(WIFSIGNALED(ends[kVictim].status));
      CHECK(ends[0].said == name + ", " + name);
      CHECK(ends[2].said == name + ", " + name);
      CHECK(ends[0].returned());
      CHECK(ends[2].returned());
    }
  }
}

TEST_CASE("gpu: a rank that is killed between calls is noticed by those that wait for it, in time", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) -> std::string {
    auto comm = init_on_device(store, rank, "aa");
    auto arena = comm.arena(4096);
    auto const values = arena.allocate<float>(8);
    comm.all_reduce(values);
    if (rank == kVictim) {
      or_throw(store.client().wait({"waiting"}));
      raise(SIGKILL);
    }
    auto work = comm.start_all_reduce(values.data(), values.data(), 8, DType::f32);
    or_throw(store.client().add("waiting", 1));
    auto const began = std::chrono::steady_clock::now();
    try {
      work.wait();
    } catch (PeerFailure const& failure) {
      bool const soon = std::chrono::steady_clock::now() - began < 5s;  // op_timeout is 5 minutes
      return named(failure) + (soon ? "" : " late");
    }
    return "nothing";
  });
  CHECK(ends[0].said == "0 1 host_a");
}

TEST_CASE("gpu: a rank that leaves while others call is named", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) -> std::string {
    auto comm = init_on_device(store, rank, "aa");
    if (rank == kVictim) {
      auto const arena = comm.arena(4096);
      return "gone";
    }
    return call_until_failure(comm, Waits::blocking);
  });
  CHECK(ends[0].said == "1 1 host_a, 1 1 host_a");
  check_all_returned(ends);
}

TEST_CASE("gpu: an error of NCCL's is thrown by all ranks in its own words, with rank and host", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) {
    auto comm = init_on_device(store, rank, "ab", "rank=1,error=3");
    return call_until_failure(comm, Waits::work);
  });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(has(end.said, "exception: rank 1 on host_b: a call on device memory: NCCL: "));
    CHECK(has(end.said, "NCCL_DEBUG=INFO says more"));
  }
}

TEST_CASE("gpu: who does not come in op_timeout is named, and a call that differs too", "[process]") {
  struct Case {
    bool comes;
    char const* says;
  };
  for (auto const& [comes, says] :
       {Case{false, "rank 1 on host_a did not arrive in time"},
        Case{true,
             "ranks disagree about the root: rank 0 called broadcast of 8 f32 from rank 0; rank 1 called "
             "broadcast of 8 f32 from rank 1"}}) {
    ForkedStore const store;
    auto const ends = run_ranks(2, [&, here = comes](int rank) -> std::string {
      Communicator::Options options;
      options.op_timeout = 300ms;
      auto comm = init_on_device(store, rank, "aa", "hang=0", options);
      auto arena = comm.arena(4096);
      auto const values = arena.allocate<float>(8);
      if (rank == 1 && !here) {
        or_throw(store.client().wait({"noticed"}));
        return "came late";
      }
      try {
        comm.broadcast(values.data(), 8, DType::f32, rank);
      } catch (std::exception const& failure) {
        or_throw(store.client().add("noticed", 1));
        return failure.what();
      }
      return "nothing";
    });
    INFO(ends[0].said << "\n" << ends[1].said);
    CHECK(has(ends[0].said, says));
    CHECK((has(ends[1].said, says) || !comes));
  }
}

TEST_CASE("gpu: ranks that NCCL never connects give up when init_timeout is over", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) {
    Communicator::Options options;
    options.init_timeout = 2s;
    init_on_device(store, rank, "aa", "init=stuck", options);
    return std::string("met");
  });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(has(end.said, "NCCL has not connected all ranks in time"));
  }
}

TEST_CASE("gpu: a process that still connects cannot be given up before NCCL 2.22.3, and ends with code 75",
          "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) {
    Communicator::Options options;
    options.init_timeout = 2s;
    options.abort_deadline = 100ms;
    init_on_device(store, rank, "aa", "init=stuck,nccl=22105", options);
    return std::string("met");
  });
  CHECK(WIFEXITED(ends[0].status));
  CHECK(WEXITSTATUS(ends[0].status) == cxxrun::os::Watchdog::kTryAgain);
}

TEST_CASE("gpu: a process whose NCCL cannot be given up ends with code 75", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) {
    setenv("CXXRUN_FAULT", "rank=1,call=8,at=enter,do=kill", 1);
    Communicator::Options options;
    options.abort_deadline = 100ms;
    auto comm = init_on_device(store, rank, "aa", "abort=60", options);
    return call_until_failure(comm, Waits::work);
  });
  CHECK(WIFEXITED(ends[0].status));
  CHECK(WEXITSTATUS(ends[0].status) == cxxrun::os::Watchdog::kTryAgain);
}

TEST_CASE(
    "gpu: a rank that is stopped is named by the others, which keep their processes though NCCL's end waits for it",
    "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(
      3,
      [&](int rank) -> std::string {
        Communicator::Options options;
        options.op_timeout = 300ms;
        auto comm = init_on_device(store, rank, "aaa", "rest=peers", options);
        auto arena = comm.arena(4096);
        if (rank == kVictim) {
          raise(SIGSTOP);
        }
        auto const said = words([&] { comm.all_reduce(arena.allocate<float>(8)); });
        or_throw(store.client().add("told", 1));
        return said;
      },
      [&](std::vector<pid_t> const& pids) {
        or_throw(store.client().wait({"told"}, std::chrono::duration_cast<Millis>(kGuard)));
        while (or_throw(store.client().add("told", 0)) < 2) {
          usleep(1000);
        }
        kill(pids[kVictim], SIGKILL);
      });
  for (int const rank : {0, 2}) {
    INFO(ends[static_cast<std::size_t>(rank)].said);
    CHECK(has(ends[static_cast<std::size_t>(rank)].said, "rank 1 on host_a did not arrive in time"));
    CHECK(ends[static_cast<std::size_t>(rank)].returned());
  }
}

TEST_CASE("gpu: a rank that computes gives NCCL up when another one dies, so that the others' can end", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(3, [&](int rank) -> std::string {
    auto comm = init_on_device(store, rank, "aaa", "rest=peers");
    auto arena = comm.arena(4096);
    auto const values = arena.allocate<float>(8);
    comm.all_reduce(values);
    if (rank == kVictim) {
      raise(SIGKILL);
    }
    std::string const said = rank == 0 ? "" : words([&] { comm.all_reduce(values); });
    for (auto const until = Clock::now() + kGuard; Clock::now() < until; usleep(1000)) {
      if (cxxrun_cuda_double_calls("ncclCommAbort done") == 1) {
        return "ended" + said;
      }
    }
    return "not ended";
  });
  CHECK(ends[0].said == "ended");
  INFO(ends[2].said);
  CHECK(has(ends[2].said, "ended"));
  CHECK(has(ends[2].said, "rank 1 on host_a"));
}

TEST_CASE("gpu: a rank that hangs at its end keeps no other from its own", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(
      2,
      [&](int rank) -> std::string {
        {
          Communicator::Options options;
          options.abort_deadline = 200ms;
          auto comm = init_on_device(store, rank, "aa", "rest=peers", options);
          comm.barrier();
          if (rank == kVictim) {
            raise(SIGSTOP);
          }
        }
        or_throw(store.client().set("closed", ""));
        return "closed";
      },
      [&](std::vector<pid_t> const& pids) {
        CHECK(store.client().wait({"closed"}, std::chrono::duration_cast<Millis>(kGuard)));
        kill(pids[kVictim], SIGKILL);
      });
  CHECK(ends[0].said == "closed");
}

TEST_CASE("gpu: a rank whose own kernel fails ends itself with code 74, and the others see a death", "[process]") {
  for (char const* const nodes : {"aaa", "abc"}) {
    for (auto const waits : {Waits::blocking, Waits::work, Waits::elsewhere}) {
      ForkedStore const store;
      auto const ends = run_ranks(3, [&](int rank) {
        auto comm = init_on_device(store, rank, nodes, "rank=1,fault=3");
        return call_until_failure(comm, waits);
      });
      std::string const name = std::string("0 1 host_") + nodes[kVictim];
      INFO(nodes << " " << static_cast<int>(waits) << ": " << ends[0].said << " / " << ends[2].said);
      CHECK(WIFEXITED(ends[kVictim].status));
      CHECK(WEXITSTATUS(ends[kVictim].status) == gpu::kDeviceLost);
      CHECK(ends[0].said == name + ", " + name);
      CHECK(ends[2].said == name + ", " + name);
    }
  }
}

TEST_CASE("gpu: a lost device is noticed when another rank's death ends the communicator", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(3, [&](int rank) -> std::string {
    auto comm = init_on_device(store, rank, "aaa");
    comm.barrier();
    if (rank == kVictim) {
      or_throw(store.client().wait({"lost"}));
      raise(SIGKILL);
    }
    if (rank == 0) {
      cxxrun_cuda_double_lose_context();
      or_throw(store.client().add("lost", 1));
    }
    try {
      comm.barrier();
    } catch (PeerFailure const& failure) {
      return named(failure);
    }
    return "nothing";
  });
  CHECK(WIFEXITED(ends[0].status));
  CHECK(WEXITSTATUS(ends[0].status) == gpu::kDeviceLost);
  CHECK(ends[2].said == "0 1 host_a");
}

TEST_CASE("gpu: memory of which CUDA does not say where it lies is an error, and never the host's", "[process]") {
  for (int const ranks : {1, 2}) {
    ForkedStore const store;
    auto const ends = run_ranks(ranks, [&](int rank) {
      auto comm = init_on_device(store, rank, std::string(static_cast<std::size_t>(ranks), 'a'));
      void* memory = nullptr;
      cudaMalloc(&memory, 64);
      cxxrun_cuda_double_lose_context();
      comm.all_reduce(std::span(static_cast<float*>(memory), 8));
      return std::string("summed");
    });
    INFO(ends[0].said);
    CHECK((ranks == 1 ? has(ends[0].said, "rank 0 on host_a: asking where a buffer lies: cudaPointerGetAttributes: ")
                      : WIFEXITED(ends[0].status) && WEXITSTATUS(ends[0].status) == gpu::kDeviceLost));
  }
}

TEST_CASE("gpu: a call whose stream is being captured is refused by name, also of host memory", "[process]") {
  for (bool const host : {false, true}) {
    ForkedStore const store;
    auto const ends = run_ranks(2, [&](int rank) -> std::string {
      auto comm = init_on_device(store, rank, "aa");
      auto arena = comm.arena(4096);
      std::vector<float> mine(8);
      auto* const values = host ? mine.data() : arena.allocate<float>(8).data();
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
      std::string said;
      try {
        comm.start_all_reduce(values, values, 8, DType::f32, ReduceOp::sum, Wire::same, 1.0F, Stream{stream}).wait();
      } catch (Failure const& failure) {
        said = failure.what();
      }
      cudaGraph_t graph = nullptr;
      expect(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "the capture was ended");
      return said;
    });
    for (int const rank : {0, 1}) {
      INFO(host << ": " << ends[static_cast<std::size_t>(rank)].said);
      CHECK(has(ends[static_cast<std::size_t>(rank)].said,
                "rank " + std::to_string(rank) +
                    " on host_a: all_reduce of 8 f32, sum: its stream is being captured into a CUDA graph"));
    }
  }
}

TEST_CASE("gpu: a stream that is being captured cannot wait for a call, and all ranks are told", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) -> std::string {
    auto comm = init_on_device(store, rank, "aa");
    auto arena = comm.arena(4096);
    auto* const values = arena.allocate<float>(8).data();
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cxxrun_cuda_double_spin(nullptr, 10'000'000);
    auto work = comm.start_all_reduce(values, values, 8, DType::f32);
    if (rank == kVictim) {
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    }
    work.wait_on(Stream{stream});
    comm.barrier();
    return "went on";
  });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(has(end.said, "rank 1 on host_a: a stream: it is being captured into a CUDA graph"));
  }
}

TEST_CASE("gpu: a capture in global mode outlives calls that are under way", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) -> std::string {
    auto comm = init_on_device(store, rank, "aa");
    auto arena = comm.arena(4096);
    auto* const values = arena.allocate<float>(8).data();
    cudaStream_t busy = nullptr;
    cudaStream_t captured = nullptr;
    cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking);
    cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal);
    cxxrun_cuda_double_spin(busy, 30'000'000);
    auto work = comm.start_all_reduce(values, values, 8, DType::f32, ReduceOp::sum, Wire::same, 1.0F, Stream{busy});
    work.wait();
    cudaGraph_t graph = nullptr;
    bool const whole = cudaStreamEndCapture(captured, &graph) == cudaSuccess;
    comm.barrier();
    return whole ? "whole" : "ended";
  });
  CHECK(ends[0].said == "whole");
  CHECK(ends[1].said == "whole");
}
