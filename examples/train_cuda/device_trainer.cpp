#include "train_cuda/device_trainer.hpp"

#include <array>

#include "cxxrun/failure.hpp"
#include "train_cuda/layers.hpp"

namespace train {
namespace {

/// An arena is host memory where the host backend was asked for: no kernel may touch it.
void require_device_memory(void const* memory) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeDevice) {
    throw cxxrun::Failure({cxxrun::Errc::usage, "this trainer needs NCCL; unset CXXRUN_BACKEND"});
  }
}

}  // namespace

DeviceTrainer::DeviceTrainer(Text const& text, Options const& options) : ArenaTrainer(text, options) {}

DeviceTrainer::Device& DeviceTrainer::device() {
  if (!device_) {
    device_.emplace(shape(), options().batch * shape().context);
  }
  return *device_;
}

ArenaTrainer::Totals DeviceTrainer::calculate(World& world, Text::Batch const& batch) {
  require_device_memory(world.totals.data());
  auto& [model, own] = device();
  auto* const stream = own.get();
  std::array<double, 2> totals{0, static_cast<double>(batch.targets.size())};
  queue_copy(model.tokens(), batch.tokens.data(), batch.tokens.size());
  queue_copy(model.targets(), batch.targets.data(), batch.targets.size());
  copy(world.totals.data(), totals.data(), sizeof totals);
  model.forward(stream, world.weight, batch.tokens.size(), world.totals.data());
  model.backward(stream, world.weight, world.gradients(),
                 [&](std::size_t i) { world.sync.mark_ready(i, cxxrun::Stream{stream}); });
  world.sync.wait(cxxrun::Stream{stream});
  auto work = world.comm.start_all_reduce(world.totals.data(), world.totals.data(), totals.size(), cxxrun::DType::f64,
                                          cxxrun::ReduceOp::sum, cxxrun::Wire::same, 1.0F, cxxrun::Stream{stream});
  work.wait_on(cxxrun::Stream{stream});
  copy(totals.data(), world.totals.data(), sizeof totals);
  work.wait();  // when a rank has died the stream goes on, with what nobody may use
  return {totals[0], totals[1]};
}

// The next step is queued behind it, and so is whatever copies.
void DeviceTrainer::optimize(World& world, AdamFactors const& factors, float scale) {
  device::AdamStep const step{factors.rate, factors.unbias, factors.first, factors.second, scale};
  for (std::size_t i = 0; i < world.weight.size(); ++i) {
    device::adam(device().stream.get(), step, world.weight[i].data(), world.sync.gradient<float>(i).data(),
                 world.mean_of[i].data(), world.square_of[i].data(), world.weight[i].size());
  }
}

void DeviceTrainer::queue_copy(void* to, void const* from, std::size_t bytes) {
  if (bytes > 0) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, device().stream.get()), "cudaMemcpyAsync");
  }
}

void DeviceTrainer::copy(void* to, void const* from, std::size_t bytes) {
  queue_copy(to, from, bytes);
  check(cudaStreamSynchronize(device().stream.get()), "cudaStreamSynchronize");
}

}  // namespace train
