// A rank on the NCCL backend, with a device and peers that do what the test says.
#pragma once

#include <string>

#include "src/runtime/client/engine.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/text.hpp"

namespace cxxrun::test {

struct NcclWorld {
  FakeDevice device{};
  FakePeers::State peers{};
  Millis op_timeout = std::chrono::seconds(60);
  Millis abort_deadline = std::chrono::seconds(60);
  Millis init = std::chrono::seconds(60);

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

inline comm::Call sum_of(std::byte* data, std::size_t count = 8) {
  return {.kind = comm::Kind::all_reduce, .type = DType::f32, .count = count, .in = data, .out = data};
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

}  // namespace cxxrun::test
