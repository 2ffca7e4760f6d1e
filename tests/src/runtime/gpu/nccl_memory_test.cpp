// Calls on a device allocate nothing. Part of the program that counts all allocations.
#include "src/runtime/client/engine.hpp"
#include "tests/support/allocations.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_device.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

TEST_CASE("nccl: queueing a call, waiting for it and letting a stream wait for it allocates nothing", "[process]") {
  FakeDevice device;
  device.quiet = true;
  FakePeers::State peers;
  gpu::NcclConfig config;
  config.api = &FakeDevice::table();
  config.hosts = {"node0", "node1"};
  config.op_timeout = config.abort_deadline = std::chrono::minutes(1);
  client::Engine engine(gpu::make_nccl_backend(std::move(config), std::make_unique<FakePeers>(peers, 2),
                                               Clock::now() + std::chrono::minutes(1)));
  auto* const memory = engine.allocate(64);
  comm::Call const call{.kind = comm::Kind::all_reduce, .type = DType::f32, .count = 8, .in = memory, .out = memory};
  auto const before = allocations();
  for (int i = 0; i < 1000; ++i) {
    device.runs = false;
    auto const ticket = engine.submit(call);
    engine.wait_on(ticket, Stream{});
    static_cast<void>(engine.done(ticket));
    device.runs = true;
    engine.wait(ticket);
    engine.run(call);
  }
  CHECK(allocations() - before == 0);
}
