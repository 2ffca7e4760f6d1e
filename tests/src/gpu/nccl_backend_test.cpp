// The NCCL backend's decisions: what it asks of the device, and how everything that goes wrong ends.
#include <condition_variable>
#include <sys/wait.h>

#include "src/client/engine.hpp"
#include "src/client/solo_backend.hpp"
#include "src/gpu/nccl_peers.hpp"
#include "src/host/common/device_queue.hpp"
#include "src/os/watchdog.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/ranks.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using client::Engine;
using comm::Call;
using comm::Kind;

namespace {

struct World {
  FakeDevice device{};
  FakePeers::State peers{};
  Millis op_timeout = 60s;
  Millis abort_deadline = 60s;
  Millis init = 60s;

  [[nodiscard]] std::unique_ptr<host::Backend> join() {
    gpu::NcclConfig config;
    config.api = &FakeDevice::table();
    config.device = "a GPU (GPU-0)";
    config.nccl = 22809;
    config.hosts = {"node0", "node1"};
    config.generation = 7;
    config.op_timeout = op_timeout;
    config.abort_deadline = abort_deadline;
    return gpu::make_nccl_backend(std::move(config), std::make_unique<FakePeers>(peers, 2), Clock::now() + init);
  }
};

Call sum_of(std::byte* data, std::size_t count = 8) {
  return {.kind = Kind::all_reduce, .type = DType::f32, .count = count, .in = data, .out = data};
}

template <class Body>
std::string thrown_by(Body const& body) {
  try {
    body();
  } catch (PeerFailure const& failure) {
    return "peer " + std::to_string(failure.rank()) + " " + std::to_string(static_cast<int>(failure.why())) + " " +
           std::to_string(failure.generation());
  } catch (Failure const& failure) {
    return failure.what();
  }
  return "";
}

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// Until it is so; a limit against hanging only.
template <class Condition>
bool eventually(Condition const& condition) {
  for (auto const until = Clock::now() + 60s; Clock::now() < until;) {
    if (condition()) {
      return true;
    }
    std::this_thread::yield();
  }
  return false;
}

}  // namespace

TEST_CASE("nccl: calls on device memory are queued behind their stream, those on host memory go to the host backend") {
  World world;
  world.device.slow_polls = 3;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  REQUIRE(memory != nullptr);
  int const before = world.peers.calls;
  auto call = sum_of(memory);
  call.stream.handle = reinterpret_cast<void*>(std::uintptr_t{5});
  backend->run(call);
  CHECK(world.peers.calls == before);
  CHECK(world.device.heard() == std::vector<std::string>{"begin 77 0/2", "after 5", "all_reduce of 8 f32, sum"});
  std::array<std::byte, 32> host{};
  backend->run(sum_of(host.data()));
  backend->run({.kind = Kind::barrier});
  CHECK(world.peers.calls == before + 2);
  CHECK(backend->describe() == "NCCL 2.28.9 on a GPU (GPU-0); for host memory: fake peers");
  CHECK_FALSE(world.device.crowded);
}

TEST_CASE("nccl: it ends in good order: what is queued is done, NCCL is finalized, and then the peers are left") {
  World world;
  {
    auto const backend = world.join();
    auto* const memory = backend->allocate(64);
    static_cast<void>(backend->device()->submit(sum_of(memory)));
    backend->leave();
    CHECK(world.device.finalized == 1);
    CHECK(world.peers.left == 1);
    CHECK(world.device.freed == 0);  // the memory stays
  }
  CHECK(world.device.aborted == 0);
  CHECK(world.device.freed == 1);
}

TEST_CASE("nccl: an engine's Works of the device are done, waited for and waited on by the device's points") {
  World world;
  Engine engine(world.join());
  auto* const memory = engine.allocate(64);
  world.device.runs = false;
  auto const first = engine.submit(sum_of(memory));
  auto const second = engine.submit(sum_of(memory, 4));
  CHECK_FALSE(engine.done(first));
  engine.wait_on(second, Stream{reinterpret_cast<void*>(std::uintptr_t{9})});
  CHECK(world.device.heard().back() == "9 waits for 3");  // the first mark followed the allocation
  std::array<std::byte, 32> host{};
  engine.wait(engine.submit(sum_of(host.data())));  // does not wait for the device
  world.device.runs = true;
  engine.wait(first);
  CHECK(engine.done(first));
  CHECK(eventually([&] { return engine.done(second); }));
}

TEST_CASE("nccl: a peer's death ends a call that nobody waits for, and is what everybody is told") {
  World world;
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

TEST_CASE("nccl: a peer's death is thrown by who waits, and calls done before keep their results") {
  World world;
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
  World world;
  world.op_timeout = 500ms;  // so long a name is waited for
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
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
  INFO(said);
  CHECK(said == (died
                     ? "peer 1 0 7"
                     : "rank 0 on node0: a call on device memory: ncclRemoteError: socket closed; NCCL_DEBUG=INFO says "
                       "more"));
  CHECK(world.peers.aborts == (died ? 0 : 1));
}

TEST_CASE("nccl: when a call is not done in op_timeout, who does not report is named") {
  World world;
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
          "rank 0 on node0: all_reduce of 8 f32, sum was not done within 0.05 s, though every rank made it; "
          "NCCL_DEBUG=INFO says more, nvidia-smi shows the state of the devices");
  }
  CHECK(world.device.aborted == 1);
}

TEST_CASE("nccl: a rank that left is only to blame if it leaves a call unfinished") {
  World world;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.peers.trouble = host::Trouble::left;
  world.peers.facts.why = PeerFailure::Why::left;
  world.device.runs = false;
  world.device.runs_after = 2;  // looks at the peers, of which the second knows that the first saw the same
  backend->run(sum_of(memory));
  world.device.runs = false;
  CHECK(thrown_by([&] { backend->run(sum_of(memory)); }) == "peer 1 1 7");
}

TEST_CASE("nccl: ranks that never connect are given up at the deadline, or when one of them dies") {
  World world;
  world.device.connects = false;
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
  CHECK(world.device.freed == 1);
}

TEST_CASE("nccl: a host call's failure ends NCCL too") {
  World world;
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
    World world;
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

TEST_CASE("nccl: memory that is not there, or not of one size, is a failure on all ranks") {
  World world;
  world.op_timeout = 50ms;
  auto const backend = world.join();
  SECTION("not there") {
    world.device.refuses_memory = CXXRUN_CUDA_CUDA;
    CHECK(has(thrown_by([&] { static_cast<void>(backend->allocate(64)); }),
              "rank 0 on node0: an arena in device memory (ask for less if there is not enough): cudaMalloc: out of "
              "memory"));
    CHECK(world.peers.aborts == 1);
  }
  SECTION("of two sizes") {
    world.peers.other_size = 32;
    CHECK(thrown_by([&] { static_cast<void>(backend->allocate(64)); }) ==
          "ranks disagree about the size: rank 0 called arena of 64 bytes; rank 1 called arena of 32 bytes");
  }
}

TEST_CASE("nccl: what NCCL cannot do is refused before it is asked") {
  World world;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  auto& device = *backend->device();
  std::array<std::byte, 32> host{};
  auto call = sum_of(memory);
  CHECK_FALSE(device.refusal(call));
  call.in = host.data();
  CHECK(has(device.refusal(call).value_or(""), "one buffer is device memory and the other the host's"));
  call = sum_of(memory);
  call.op = ReduceOp::min;
  CHECK(has(device.refusal(call).value_or(""), "NCCL loses NaNs"));
  call.type = DType::i32;
  CHECK_FALSE(device.refusal(call));
  call = sum_of(host.data());
  call.op = ReduceOp::max;
  CHECK_FALSE(device.refusal(call));
}

TEST_CASE("nccl: memory of which CUDA cannot say whose it is goes to no backend, and all ranks are told") {
  World world;
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
  CHECK(world.peers.calls == calls + 1);  // the ranks' hearing
  world.device.unsure = false;
  CHECK(has(thrown_by([&] { backend->run(call); }), words));
}

TEST_CASE("nccl: a world of one launches nothing for what is there already") {
  FakeDevice device;
  gpu::NcclConfig config;
  config.api = &FakeDevice::table();
  config.hosts = {"node0"};
  config.op_timeout = config.abort_deadline = 60s;
  auto const backend =
      gpu::make_nccl_backend(std::move(config), client::make_solo_backend("rank 0 on node0"), Clock::now() + 60s);
  auto* const memory = backend->allocate(64);
  auto const before = device.heard();
  backend->run(sum_of(memory));
  CHECK(device.heard() == before);
  auto scaled = sum_of(memory);
  scaled.scale = 0.5F;
  backend->run(scaled);
  CHECK(device.heard().back() == "all_reduce of 8 f32, sum, scale 0.5");
}

TEST_CASE("nccl: more calls than there are points under way wait for the device") {
  World world;
  auto const backend = world.join();
  auto* const memory = backend->allocate(64);
  world.device.runs = false;
  std::atomic<int> made{0};
  std::thread caller([&] {
    for (int i = 0; i < 600; ++i) {
      static_cast<void>(backend->device()->submit(sum_of(memory)));
      ++made;
    }
  });
  CHECK(eventually([&] { return made == 256; }));
  world.device.runs = true;
  caller.join();
  CHECK(made == 600);
  CHECK_FALSE(world.device.crowded);
}

TEST_CASE("desync report: who made another call, or fewer, is named") {
  std::vector<std::string> const names{"rank 0 on a", "rank 1 on b"};
  Call const eight{.kind = Kind::all_reduce, .type = DType::f32, .count = 8};
  Call const seven{.kind = Kind::all_reduce, .type = DType::f32, .count = 7};
  using gpu::CallReport;
  auto const third = [](Call const& call) { return CallReport{3, 3, comm::fields_of(call)}; };
  CHECK(
      gpu::verdict(std::vector<CallReport>{third(eight), third(seven)}, names, "5 s") ==
      "ranks disagree about the count: rank 0 called all_reduce of 8 f32, sum; rank 1 called all_reduce of 7 f32, sum");
  CHECK(gpu::verdict(std::vector<CallReport>{third(eight), CallReport{.made = 2}}, names, "5 s") ==
        "rank 0 on a has made 3 calls on device memory and rank 1 on b only 2: every rank makes the same calls, with "
        "buffers in the same kind of memory");
  CHECK(has(gpu::verdict(std::vector<CallReport>{CallReport{.made = 3}, third(eight)}, names, "5 s"),
            "rank 1 on b: all_reduce of 8 f32, sum was not done within 5 s"));
}
