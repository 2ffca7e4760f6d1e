// How every failure of the NCCL backend ends, and which ranks are told what.
#include <algorithm>
#include <array>
#include <chrono>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "launcher/options/options.hpp"
#include "src/base/os/thread.hpp"
#include "src/runtime/client/engine.hpp"
#include "src/runtime/gpu/nccl_leftover.hpp"
#include "src/runtime/gpu/nccl_peers.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/nccl_world.hpp"
#include "tests/support/ranks.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using client::Engine;
using comm::Call;
using comm::Kind;

TEST_CASE("nccl: a peer's death ends a call that nobody waits for, and is what everybody is told") {
  NcclWorld world;
  Engine engine(world.join());
  auto* const memory = engine.allocate(64);
  world.device.runs = false;
  auto const work = engine.submit(sum_of(memory));
  world.peers.lose_peer();
  CHECK(eventually([&] { return world.device.aborted == 1; }));  // as if the program sat in cudaStreamSynchronize
  CHECK(eventually([&] { return engine.done(work); }));
  CHECK(thrown_by([&] { engine.wait(work); }) == "peer 1 0 7");
  CHECK(thrown_by([&] { static_cast<void>(engine.submit(sum_of(memory))); }) == "peer 1 0 7");
  CHECK(thrown_by([&] { engine.run({.kind = Kind::barrier}); }) == "peer 1 0 7");
  CHECK(thrown_by([&] { engine.run(sum_of(memory)); }) == "peer 1 0 7");
  engine.close();
  CHECK(world.device.finalized == 0);
  CHECK(world.device.aborted == 1);
  CHECK_FALSE(world.device.crowded);
}

TEST_CASE("nccl: the gate is shut before an abort lets the stream go on") {
  NcclWorld world;
  Engine engine(world.join());
  auto* const memory = engine.allocate(64);
  float gate = 0;
  gpu::set_gate(&gate);
  world.device.abort_hangs = true;
  world.device.runs = false;
  static_cast<void>(engine.submit(sum_of(memory)));
  CHECK(gate == 0.0F);
  world.peers.lose_peer();
  CHECK(eventually([&] { return world.device.aborted == 1; }));
  CHECK(gate == 1.0F);
  world.device.abort_hangs = false;
  gpu::set_gate(nullptr);
}

TEST_CASE("nccl: a peer's death is thrown by who waits, and calls done before keep their results") {
  NcclWorld world;
  auto const backend = world.join();
  auto& device = *backend->device();
  auto* const memory = backend->allocate(64);
  auto const good = device.submit(sum_of(memory));
  device.wait(good);
  world.device.runs = false;
  std::thread killer([&] {
    eventually([&] { return world.device.heard().size() > 3; });
    world.peers.lose_peer();
  });
  CHECK(thrown_by([&] { backend->run(sum_of(memory)); }) == "peer 1 0 7");
  killer.join();
  CHECK_NOTHROW(device.wait(good));
}

TEST_CASE("nccl: an error of NCCL's is told to the peers in its own words, unless one of them has died") {
  bool const died = GENERATE(false, true);
  bool const host_call = GENERATE(false, true);  // on another thread at the same time
  NcclWorld world;
  world.op_timeout = 500ms;  // how long it waits for a name
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.peers.holds = host_call;
  std::string beside;
  std::thread caller([&] {
    if (host_call) {
      beside = thrown_by([&] { backend->run({.kind = Kind::barrier}); });
    }
  });
  CHECK(eventually([&] { return world.peers.held == host_call; }));
  world.device.runs = false;
  auto const point = backend->device()->submit(sum_of(memory));
  world.device.broken = true;
  std::thread killer([&] {
    eventually([&] { return world.device.aborted == 1; });
    if (died) {
      world.peers.lose_peer();
    }
  });
  auto const said = thrown_by([&] { backend->device()->wait(point); });
  killer.join();
  caller.join();
  INFO(said);
  CHECK((!host_call || beside == said));
  CHECK(said == (died
                     ? "peer 1 0 7"
                     : "rank 0 on node0: a call on device memory: ncclRemoteError: socket closed; NCCL_DEBUG=INFO says "
                       "more"));
  CHECK(world.peers.aborts == (died ? 0 : 1));
}

TEST_CASE("nccl: when a call is not done in op_timeout, who does not report is named") {
  NcclWorld world;
  world.op_timeout = 50ms;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.device.runs = false;
  SECTION("a rank is missing") {
    world.peers.late = 1;
    CHECK(thrown_by([&] { backend->run(sum_of(memory)); }) == "peer 1 2 7");
  }
  SECTION("all have come") {
    CHECK(thrown_by([&] { backend->run(sum_of(memory)); }) ==
          "rank 0 on node0: all_reduce of 8 f32, sum was not done within 0.05 s, though every rank made it: "
          "NCCL is stuck, or blocked by calls of another Communicator, which all ranks must make in the same order; "
          "NCCL_DEBUG=INFO says more, nvidia-smi shows the state of the devices");
  }
  CHECK(world.device.aborted == 1);
}

TEST_CASE("nccl: a rank that left is only to blame if it leaves a call unfinished") {
  NcclWorld world;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.peers.trouble = host::Trouble::left;
  world.peers.facts.why = PeerFailure::Why::left;
  world.device.runs = false;
  world.device.runs_after = 2;  // number of looks at the peers; the second one knows that the first saw the same
  backend->run(sum_of(memory));
  world.device.runs = false;
  CHECK(thrown_by([&] { backend->run(sum_of(memory)); }) == "peer 1 1 7");
}

TEST_CASE("nccl: ranks that never connect are given up at an error, at the deadline, or when one of them dies") {
  NcclWorld world;
  world.device.connects = false;
  SECTION("error") {
    world.device.begins = false;
    world.op_timeout = 200ms;
    CHECK(has(thrown_by([&] { static_cast<void>(world.join()); }),
              "rank 0 on node0: NCCL does not start on a GPU (GPU-0): ncclCommInitRankConfig: no"));
  }
  SECTION("deadline") {
    world.init = 50ms;
    world.op_timeout = 200ms;
    CHECK(has(thrown_by([&] { static_cast<void>(world.join()); }),
              "rank 0 on node0: NCCL has not connected all ranks in time; NCCL_DEBUG=INFO"));
  }
  SECTION("death") {
    std::thread killer([&] {
      eventually([&] { return !world.device.heard().empty(); });
      world.peers.lose_peer();
    });
    CHECK(thrown_by([&] { static_cast<void>(world.join()); }) == "peer 1 0 7");
    killer.join();
  }
  CHECK(world.device.aborted == 1);
  CHECK(eventually([&] { return world.device.freed == 1; }));
}

TEST_CASE("nccl: a host call's failure ends NCCL too") {
  NcclWorld world;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.peers.late = 1;
  CHECK(thrown_by([&] { backend->run({.kind = Kind::barrier}); }) == "peer 1 2 7");
  CHECK(world.device.aborted == 1);
  CHECK(thrown_by([&] { backend->run(sum_of(memory)); }) == "peer 1 2 7");
}

TEST_CASE("nccl: an abort that does not come back ends the process with code 75, and says so") {
  auto const ends = run_ranks(1, [](int) {
    dup2(STDOUT_FILENO, STDERR_FILENO);
    NcclWorld world;
    world.abort_deadline = 20ms;
    auto const backend = world.join();
    auto* const memory = backend->allocate(64);
    world.device.runs = false;
    world.device.abort_hangs = true;
    world.peers.lose_peer();
    backend->run(sum_of(memory));
    return std::string("came back");
  });
  CHECK(WIFEXITED(ends[0].status));
  CHECK(WEXITSTATUS(ends[0].status) == cxxrun::os::Watchdog::kTryAgain);
}

TEST_CASE("nccl: who survives goes on while the rest of the abort runs behind, and its memory is given back after it") {
  NcclWorld world;
  world.device.end_rests = true;
  {
    auto const backend = world.join();
    world.peers.lose_peer();
    CHECK(thrown_by([&] { backend->run(sum_of(backend->allocate(64))); }) == "peer 1 0 7");
  }
  CHECK(world.device.freed == 0);
  world.peers.trouble = host::Trouble::none;
  auto const next = world.join();
  CHECK_NOTHROW(next->run(sum_of(next->allocate(64))));
  CHECK(world.device.freed == 0);
  world.device.end_rests = false;
  CHECK(eventually([&] { return world.device.freed == 1; }));
}

TEST_CASE("nccl: memory that an abort behind still has is waited for, and asked for again") {
  NcclWorld world;
  world.device.end_rests = true;
  {
    auto const backend = world.join();
    world.peers.lose_peer();
    thrown_by([&] { backend->run({.kind = Kind::barrier}); });
  }
  world.peers.trouble = host::Trouble::none;
  auto const next = world.join();
  world.device.refuses_memory = CXXRUN_CUDA_CUDA;
  std::thread rest([&] {
    eventually([&] { return world.device.refused == 1; });
    world.device.refuses_memory = 0;
    world.device.end_rests = false;
  });
  CHECK_NOTHROW(next->run(sum_of(next->allocate(64))));
  rest.join();
  CHECK(world.device.refused == 1);
  CHECK(world.device.freed == 1);  // before it was asked again
}

TEST_CASE("nccl: a process that so many aborts are left in makes no other communicator, and ends with code 75") {
  auto const ends = run_ranks(1, [](int) {
    dup2(STDOUT_FILENO, STDERR_FILENO);
    NcclWorld world;
    world.abort_deadline = 20ms;
    world.device.end_rests = true;
    for (std::size_t left = 0; left <= gpu::Leftover::kMost; ++left) {
      auto const backend = world.join();
      world.peers.lose_peer();
      thrown_by([&] { backend->run({.kind = Kind::barrier}); });
      world.peers.trouble = host::Trouble::none;
    }
    static_cast<void>(world.join());
    return std::string("joined");
  });
  CHECK(WIFEXITED(ends[0].status));
  INFO(ends[0].said);
  CHECK(WEXITSTATUS(ends[0].status) == cxxrun::os::Watchdog::kTryAgain);
}

TEST_CASE("nccl: an end in good order that does not come keeps nobody for longer than the deadline") {
  NcclWorld world;
  world.abort_deadline = 20ms;
  world.device.end_rests = true;
  {
    auto const backend = world.join();
    backend->leave();
    CHECK(world.peers.left == 1);
    CHECK(world.device.finalized == 1);
  }
  CHECK(world.device.freed == 0);
  world.device.end_rests = false;
  CHECK(eventually([&] { return world.device.freed == 1; }));
  CHECK(world.device.aborted == 0);
}

TEST_CASE("nccl: a rank that calls nothing gives NCCL up, too, when a peer dies") {
  NcclWorld world;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.peers.lose_peer();
  CHECK(eventually([&] { return world.device.aborted == 1; }));
  CHECK(thrown_by([&] { backend->run(sum_of(memory)); }) == "peer 1 0 7");
}

TEST_CASE("nccl: NCCL is not ended in good order with a peer that has failed") {
  NcclWorld world;
  auto const backend = world.join();
  world.peers.lose_peer();
  backend->leave();
  CHECK(world.device.finalized == 0);
  CHECK(world.device.aborted == 1);
}

TEST_CASE("nccl: who can have no thread to give NCCL up says so, and ends with code 75") {
  std::array<int, 2> channel{};
  REQUIRE(pipe(channel.data()) == 0);
  auto const ends = run_ranks(1, [&](int) {
    dup2(channel[1], STDERR_FILENO);
    NcclWorld world;
    auto const backend = world.join();
    auto* const memory = backend->allocate(64);
    world.device.runs = false;
    auto const point = backend->device()->submit(sum_of(memory));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{1} << 50);  // no address space has that
    pthread_setattr_default_np(&attributes);
    world.peers.lose_peer();
    backend->device()->wait(point);
    return std::string("came back");
  });
  std::string said(1000, '\0');
  said.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read(channel[0], said.data(), said.size()))));
  close(channel[0]);
  close(channel[1]);
  CHECK(said.starts_with("rank 0 on node0: cannot abort NCCL, because no thread can be started ("));
  CHECK(said.ends_with("): exiting with code 75, to be restarted\n"));
  CHECK(WIFEXITED(ends[0].status));
  CHECK(WEXITSTATUS(ends[0].status) == cxxrun::os::Watchdog::kTryAgain);
}

TEST_CASE("nccl: a wait that is to be given up asks who is late only after half of op_timeout") {
  bool const long_wait = GENERATE(false, true);
  NcclWorld world;
  world.op_timeout = 4s;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.device.runs = false;
  world.peers.late = long_wait ? 1 : -1;
  auto const point = backend->device()->submit(sum_of(memory));
  std::this_thread::sleep_for(long_wait ? 2800ms : 0ms);
  std::atomic<int> answers{0};
  backend->give_up_early([&] { ++answers; });
  CHECK(thrown_by([&] { backend->device()->wait(point); }) == (long_wait ? "peer 1 2 7" : "peer -1 4 7"));
  CHECK(answers > 0);
  CHECK(world.device.aborted == 1);
}

TEST_CASE("nccl: memory of which CUDA cannot say whose it is goes to no backend, and all ranks are told") {
  NcclWorld world;
  world.op_timeout = 50ms;
  auto const backend = world.join();
  std::array<std::byte, 32> memory{};
  world.device.unsure = true;
  auto const call = sum_of(memory.data());
  auto const calls = world.peers.calls.load();
  auto const* const words =
      "rank 0 on node0: asking where a buffer lies: cudaPointerGetAttributes: an illegal memory access";
  CHECK(has(thrown_by([&] { static_cast<void>(backend->device()->refusal(call)); }), words));
  CHECK(world.peers.aborts == 1);
  CHECK(world.device.aborted == 1);
  CHECK(world.peers.calls == calls + 1);  // the exchange of call reports
  world.device.unsure = false;
  CHECK(has(thrown_by([&] { backend->run(call); }), words));
}

TEST_CASE("desync report: who made another call, or fewer, is named") {
  std::vector<std::string> const names{"rank 4 on a", "rank 6 on b"};
  std::vector<int> const numbers{4, 6};
  Call const eight{.kind = Kind::all_reduce, .type = DType::f32, .count = 8};
  Call const seven{.kind = Kind::all_reduce, .type = DType::f32, .count = 7};
  using gpu::CallReport;
  auto const third = [](Call const& call) { return CallReport{3, 3, comm::fields_of(call)}; };
  CHECK(
      gpu::verdict(std::vector<CallReport>{third(eight), third(seven)}, numbers, names, "5 s") ==
      "ranks disagree about the count: rank 4 called all_reduce of 8 f32, sum; rank 6 called all_reduce of 7 f32, sum");
  CHECK(gpu::verdict(std::vector<CallReport>{third(eight), CallReport{.made = 2}}, numbers, names, "5 s") ==
        "rank 4 on a has made 3 calls on device memory and rank 6 on b only 2: every rank makes the same calls, with "
        "buffers in the same kind of memory");
  CHECK(has(gpu::verdict(std::vector<CallReport>{CallReport{.made = 3}, third(eight)}, numbers, names, "5 s"),
            "rank 6 on b: all_reduce of 8 f32, sum was not done within 5 s"));
}

TEST_CASE("nccl: who cannot give NCCL up says so before the launcher kills it, with both times as they are") {
  CHECK(Communicator::Options{}.abort_deadline < launcher::Options{}.restart_timeout);
}

TEST_CASE("nccl: a death is seen while all are blocked in the driver, and what the abort ends does not count as done") {
  bool const in_a_call = GENERATE(false, true);
  NcclWorld world;
  auto const backend = world.join();
  auto& device = *backend->device();
  auto* const memory = backend->allocate(64);
  world.device.runs = false;
  auto const point = device.submit(sum_of(memory));
  world.device.blocks = true;
  std::thread killer([&] {
    eventually([&] { return world.device.inside == 1; });
    world.peers.lose_peer();
  });
  CHECK(thrown_by([&] { in_a_call ? device.wait(device.submit(sum_of(memory))) : device.wait(point); }) ==
        "peer 1 0 7");
  killer.join();
  CHECK(world.device.aborted == 1);
  CHECK(thrown_by([&] { device.wait(point); }) == "peer 1 0 7");
  CHECK_FALSE(world.device.crowded);
}

TEST_CASE("nccl: op_timeout holds while all are blocked in the driver") {
  NcclWorld world;
  world.op_timeout = 50ms;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.device.blocks = true;
  world.peers.late = 1;
  CHECK(thrown_by([&] { backend->run(sum_of(memory)); }) == "peer 1 2 7");
}

TEST_CASE("nccl: who is blocked in the driver is freed, too, when waits are to be given up") {
  NcclWorld world;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.device.blocks = true;
  std::thread asker([&] {
    eventually([&] { return world.device.inside == 1; });
    backend->give_up_early([] {});
  });
  CHECK(thrown_by([&] { backend->run(sum_of(memory)); }) == "peer -1 4 7");
  asker.join();
}

TEST_CASE("nccl: a peer that left is no failure while the driver keeps all waiting") {
  NcclWorld world;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.device.blocks = true;
  world.peers.trouble = host::Trouble::left;
  std::thread driver([&] {
    auto const looks = world.peers.looks.load();
    eventually([&] { return world.peers.looks > looks + 2; });
    world.device.blocks = false;
  });
  CHECK_NOTHROW(backend->run(sum_of(memory)));
  driver.join();
}

TEST_CASE(
    "nccl: CUDA is asked whether the device is lost before the abort only if it has just answered with an error") {
  bool const of_cuda = GENERATE(false, true);
  NcclWorld world;
  world.op_timeout = 50ms;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.device.broken = !of_cuda;
  world.device.unsure = of_cuda;
  std::array<std::byte, 32> other{};
  world.device.runs = false;
  thrown_by([&] { backend->run(sum_of(of_cuda ? other.data() : memory)); });
  auto heard = world.device.heard();
  heard.erase(heard.begin(), std::find_if(heard.begin(), heard.end(),
                                          [](auto const& word) { return word == "abort" || word == "usable?"; }));
  CHECK(heard == (of_cuda ? std::vector<std::string>{"usable?", "abort", "usable?"}
                          : std::vector<std::string>{"abort", "usable?"}));
}
