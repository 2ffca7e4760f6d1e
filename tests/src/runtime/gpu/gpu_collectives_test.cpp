// Communicator on NCCL, through the plugin and the double: results, streams, and which ranks may be in one world.
#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <numeric>
#include <tuple>

#include <cuda_runtime_api.h>

#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/gpu_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

std::string all_lines(std::vector<RankEnd> const& ends) {
  std::string all;
  for (auto const& end : ends) {
    all += end.said + "\n";
  }
  return all;
}

/// Every collective on device memory and on host memory, with the same numbers: both give the same bytes.
std::string same_as_on_the_host(Communicator& comm) {
  auto const world = static_cast<std::size_t>(comm.world_size());
  auto arena = comm.arena(4 * world * kCount * sizeof(float) + 4 * Arena::kAlignment);
  auto const in = arena.allocate<float>(world * kCount);
  auto const out = arena.allocate<float>(world * kCount);
  std::vector<float> host_in(world * kCount);
  std::vector<float> host_out(world * kCount);
  std::string wrong;
  auto const both = [&](char const* what, auto const& call) {
    for (std::size_t i = 0; i < host_in.size(); ++i) {
      host_in[i] = in[i] = static_cast<float>(static_cast<std::size_t>(comm.rank()) * 7 + i % 13);
      host_out[i] = out[i] = -1;
    }
    call(in.data(), out.data());
    call(host_in.data(), host_out.data());
    bool const same = std::memcmp(out.data(), host_out.data(), host_out.size() * sizeof(float)) == 0 &&
                      std::memcmp(in.data(), host_in.data(), host_in.size() * sizeof(float)) == 0;
    wrong += same ? "" : std::string(what) + " differs ";
  };
  both("all_reduce", [&](float* from, float* to) { comm.all_reduce(from, to, kCount, DType::f32); });
  both("all_reduce in place", [&](float* from, float*) { comm.all_reduce(from, from, kCount, DType::f32); });
  both("reduce_scatter", [&](float* from, float* to) { comm.reduce_scatter(from, to, kCount, DType::f32); });
  both("all_gather", [&](float* from, float* to) { comm.all_gather(from, to, kCount, DType::f32); });
  both("all_to_all", [&](float* from, float* to) { comm.all_to_all(from, to, kCount, DType::f32); });
  both("broadcast", [&](float*, float* to) { comm.broadcast(to, kCount, DType::f32, comm.world_size() - 1); });
  both("max of i32", [&](float* from, float* to) { comm.all_reduce(from, to, kCount, DType::i32, ReduceOp::max); });
  both("nothing", [&](float*, float*) { comm.all_reduce(nullptr, nullptr, 0, DType::f32); });
  comm.barrier();
  auto const ranks = comm.all_gather_value(comm.rank());
  wrong += std::accumulate(ranks.begin(), ranks.end(), 0) == comm.world_size() * (comm.world_size() - 1) / 2
               ? ""
               : "all_gather_value differs ";
  return wrong + "done";
}

}  // namespace

TEST_CASE("gpu: every collective gives on device memory what it gives on host memory", "[process]") {
  for (char const* const nodes : {"a", "aa", "aaa", "ab"}) {
    ForkedStore const store;
    auto const ends = run_ranks(static_cast<int>(std::strlen(nodes)), [&](int rank) {
      auto comm = init_on_device(store, rank, nodes);
      return same_as_on_the_host(comm);
    });
    for (auto const& end : ends) {
      INFO(nodes << ": " << end.said);
      CHECK(end.said == "done");
      CHECK(end.returned());
    }
  }
}

TEST_CASE("gpu: a call in the background begins behind its stream, and another stream goes on behind it", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) -> std::string {
    auto comm = init_on_device(store, rank, "aa");
    auto arena = comm.arena(4096);
    auto const values = arena.allocate<float>(8);
    auto const after = arena.allocate<float>(8);
    cudaStream_t before = nullptr;
    cudaStream_t behind = nullptr;
    cudaStreamCreateWithFlags(&before, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&behind, cudaStreamNonBlocking);
    std::vector<float> const mine(8, static_cast<float>(rank + 1));
    cxxrun_cuda_double_spin(before, 30'000'000);
    cudaMemcpyAsync(values.data(), mine.data(), 32, cudaMemcpyHostToDevice, before);
    auto work = comm.start_all_reduce(values.data(), values.data(), 8, DType::f32, ReduceOp::sum, Wire::same, 0.5F,
                                      Stream{before});
    expect(!work.done(), "the host did not wait");
    work.wait_on(Stream{behind});
    cudaMemcpyAsync(after.data(), values.data(), 32, cudaMemcpyDeviceToDevice, behind);
    cudaStreamSynchronize(behind);
    expect(after[0] == 1.5F && after[7] == 1.5F, "the stream came too early");
    work.wait();
    expect(work.done(), "done after wait");
    comm.barrier();
    return comm.describe();
  });
  CHECK(has(ends[1].said, "rank 1 of 2 on host_a: NCCL 2.28.9 on "));
  CHECK(has(ends[1].said, "for host memory: host backend, 1 node, 2 ranks share memory here"));
  check_all_returned(ends);
}

TEST_CASE("gpu: calls on host memory keep their order, those on device memory theirs, and neither waits for the other",
          "[process]") {
  ForkedStore const store;
  check_all_returned(run_ranks(2, [&](int rank) -> std::string {
    auto comm = init_on_device(store, rank, "ab");
    auto arena = comm.arena(4 * kCount * sizeof(float));
    auto const device = arena.allocate<float>(2 * kCount);
    std::vector<float> host(2 * kCount, 1);
    cudaStream_t busy = nullptr;
    cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking);
    std::ranges::fill(device, 1.0F);
    cxxrun_cuda_double_spin(busy, 2'000'000'000);
    Work last;
    for (int i = 0; i < 10; ++i) {  // each uses the result of the one before, in two independent chains
      for (float* const values : {device.data(), host.data()}) {
        auto* const mine = values + static_cast<std::size_t>(rank) * kCount;
        std::ignore =
            comm.start_reduce_scatter(values, mine, kCount, DType::f32, ReduceOp::sum, Wire::same, 1.0F, Stream{busy});
        std::ignore = comm.start_all_gather(mine, values, kCount, DType::f32, Stream{busy});
        last = comm.start_broadcast(values, kCount, DType::f32, i % 2, Stream{busy});
        if (values == device.data()) {
          expect(!last.done(), "the device has not begun");
        }
      }
      last.wait();  // of host memory
    }
    auto on_device = comm.start_all_reduce(device.data(), device.data(), 2 * kCount, DType::f32);
    comm.all_reduce(std::span(host));
    expect(!on_device.done(), "a call on host memory, blocking or not, waits for none on device memory");
    on_device.wait();
    expect(std::ranges::all_of(host, [](float value) { return value == 2048; }), "the chain in host memory");
    expect(std::ranges::all_of(device, [](float value) { return value == 2048; }), "the chain in device memory");
    comm.barrier();
    return "";
  }));
}

TEST_CASE("gpu: what is wrong with one rank's GPU is told to all, with host and remedy", "[process]") {
  struct Case {
    char const* script;
    char const* says;
    char const* backend_of_rank_1 = "nccl";
  };
  for (auto const& [script, says, backend_of_rank_1] :
       std::vector<Case>{{"rank=1,driver=802", "rank 1 on host_a (pid "},
                         {"rank=1,driver=802", "(error 802); start nvidia-fabricmanager"},
                         {"rank=1,driver=old", "too old for the runtime"},
                         {"rank=1,driver=stub", "NCCL was asked for, but libcuda.so.1 is the stub"},
                         {"rank=1,driver=missing", "NCCL was asked for, but there is no CUDA driver"},
                         {"rank=1,kernel=fails", "GPU 1 cannot be used: "},
                         {"rank=1,nccl=21800", "NCCL 2.18.0 was loaded"},
                         {"devices=1", "there are 2 ranks on this node and 1 GPU that they see"},
                         {"uuid=same", "are on the same GPU, GPU-"},
                         {"devices=4", "would use NCCL on its GPU, but rank 1 on host_a", "auto"},
                         {"rank=1,nccl=22705", "has NCCL 2.27.5, but rank 0 on host_a"},
                         {"rank=1,init=5", "rank 1 on host_a: "}}) {
    ForkedStore const store;
    auto const ends = run_ranks(2, [&, other = backend_of_rank_1](int rank) {
      init_on_device(store, rank, "aa", script, {}, rank == 1 ? other : "nccl");
      return std::string("met");
    });
    INFO(script << ":\n" << all_lines(ends));
    for (auto const& end : ends) {
      CHECK(has(end.said, says));
      CHECK(has(end.said, "exception: "));
      CHECK(end.said.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("gpu: automatic is the host backend, whatever the GPUs of the node are like", "[process]") {
  for (char const* const script : {"devices=4", "devices=1", "driver=802", "kernel=fails", "driver=missing"}) {
    ForkedStore const store;
    auto const ends = run_ranks(2, [&](int rank) {
      auto comm = init_on_device(store, rank, "aa", script, {}, "auto");
      comm.barrier();
      return comm.describe();
    });
    INFO(script << "\n" << all_lines(ends));
    CHECK(has(ends[0].said, "rank 0 of 2 on host_a: host backend"));
    check_all_returned(ends);
  }
}

TEST_CASE("gpu: a process with another CUDA runtime gets no NCCL, in one line, and sums in host memory", "[process]") {
  for (bool const asks : {true, false}) {
    auto const ends = run_ranks(1, [&](int) {
      expect(dlopen(CXXRUN_OTHER_CUDART, RTLD_NOW) != nullptr, "another runtime");
      use_double("devices=1", asks ? "nccl" : "auto");
      auto comm = Communicator::init(WorkerEnv{}, {});
      std::vector<float> values(8, 1.0F);
      comm.all_reduce(std::span(values));
      return comm.describe();
    });
    INFO(ends[0].said);
    CHECK(has(ends[0].said, "this process has two CUDA runtimes, ") == asks);
    CHECK(has(ends[0].said, "/libcudart.so.12 and ") == asks);
  }
}

TEST_CASE("gpu: a plugin that is none is named, with what to do", "[process]") {
  struct Case {
    char const* file;
    char const* says;
  };
  for (auto const& [file, says] :
       {Case{"/nowhere/plugin.so", "there is no file /nowhere/plugin.so, which CXXRUN_CUDA_PLUGIN names"},
        Case{CXXRUN_CUDA_DOUBLE_FILE, "is not a CUDA plugin of cxxrun's"},
        Case{CXXRUN_OLDER_PLUGIN, "libolder_plugin.so is of another version of cxxrun (it has no table of version 8)"},
        Case{"/proc/self/exe", "the CUDA plugin is not usable: "}}) {
    auto const ends = run_ranks(1, [&, path = file](int) {
      setenv("CXXRUN_CUDA_PLUGIN", path, 1);
      setenv("CXXRUN_BACKEND", "nccl", 1);
      return Communicator::init(WorkerEnv{}, {}).describe();
    });
    INFO(ends[0].said);
    CHECK(has(ends[0].said, says));
    CHECK(has(ends[0].said, "CXXRUN_BACKEND=host"));
  }
}

TEST_CASE("gpu: CXXRUN_BACKEND that is no backend is refused on all ranks", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) {
    setenv("CXXRUN_BACKEND", rank == 1 ? "gloo" : "host", 1);
    init(store, rank, "aa");
    return std::string("met");
  });
  for (auto const& end : ends) {
    CHECK(has(end.said, "rank 1 on host_a (pid "));
    CHECK(has(end.said, "CXXRUN_BACKEND is \"gloo\", not auto, nccl or host"));
  }
}

TEST_CASE("gpu: what NCCL cannot do is refused by name, and nobody waits for that rank", "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) {
    auto comm = init_on_device(store, rank, "aa");
    auto arena = comm.arena(4096);
    auto const values = arena.allocate<float>(8);
    std::vector<float> host(8);
    if (rank == 1) {
      comm.all_reduce(values.data(), host.data(), 8, DType::f32);
    } else {
      comm.all_reduce(values);
    }
    return std::string("summed");
  });
  CHECK(has(ends[1].said, "rank 1 on host_a: all_reduce of 8 f32, sum: one buffer is device memory and the other"));
  CHECK(has(ends[0].said, "rank 1 on host_a left while others still called"));
}
