// The NCCL backend's calls: what it queues on the device, and what it refuses.
#include "src/runtime/client/engine.hpp"
#include "src/runtime/cpu/host_backend.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/nccl_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using client::Engine;
using comm::Call;
using comm::Kind;

TEST_CASE("nccl: calls on device memory are queued behind their stream, those on host memory go to the host backend") {
  NcclWorld world;
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
  NcclWorld world;
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
  NcclWorld world;
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

TEST_CASE("nccl: a rank whose group has a call under way does not compute, whoever waits for it") {
  NcclWorld world;
  worker::ControlPage page;
  page.generation = 7;
  Engine engine(world.join(), {page, 7, false});
  auto* const memory = engine.allocate(64);
  CHECK(page.elsewhere == 0);
  world.device.runs = false;
  auto const ticket = engine.submit(sum_of(memory));
  CHECK(page.elsewhere == 1);  // a stream
  static_cast<void>(engine.submit(sum_of(memory)));
  CHECK_FALSE(engine.wait_for(ticket, 1ms));
  CHECK(page.elsewhere == 1);
  world.device.runs = true;
  CHECK(eventually([&] { return page.elsewhere == 0; }));
  engine.wait(engine.submit(sum_of(memory)));
  CHECK(page.elsewhere == 0);
  world.device.runs = false;
  static_cast<void>(engine.submit(sum_of(memory)));
  engine.abort(host::facts_of(fail(Errc::closed, "over")));
  CHECK(eventually([&] { return world.device.aborted == 1; }));
  CHECK(page.elsewhere == 1);  // it has failed, and no rank waits for one that unwinds
}

TEST_CASE("nccl: memory that is not there, or not of one size, is a failure on all ranks") {
  NcclWorld world;
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
  NcclWorld world;
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

TEST_CASE("nccl: a world of one launches nothing for what is there already") {
  FakeDevice device;
  gpu::NcclConfig config;
  config.api = &FakeDevice::table();
  config.hosts = {"node0"};
  config.op_timeout = config.abort_deadline = 60s;
  auto const backend =
      gpu::make_nccl_backend(std::move(config), host::make_solo_backend("rank 0 on node0"), Clock::now() + 60s);
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
  NcclWorld world;
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
