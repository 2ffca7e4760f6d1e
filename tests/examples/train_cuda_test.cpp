// The layers of the trainer on CUDA, as loops on the double, beside those of the trainer on the CPU.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/support/catch.hpp"
#include "tests/support/tiny_model.hpp"
#include "train/optimizer.hpp"
#include "train_cuda/device_model.hpp"
#include "train_cuda/layers.hpp"

using namespace train;  // NOLINT(google-build-using-namespace)

namespace {

/// Gradients; whatever was there before must not count. The double's device memory is the host's.
template <class T>
Tensors<T> used_memory() {
  return Tensors<T>(kTiny, T(77));
}

template <class T>
void check_against_cpu(double tolerance) {
  auto const values = parameters_of<T>(kTiny, 1);
  DeviceStream const stream;
  DeviceModel<T> on_device(kTiny, kTokens.size());
  Model<T> on_cpu(kTiny);
  for (std::size_t const rows : {kTokens.size(), kTiny.context, std::size_t{0}}) {  // memory is for the largest
    INFO(rows << " rows");
    std::span const tokens(kTokens.data(), rows);
    std::span const targets(kTargets.data(), rows);
    auto expected = used_memory<T>();
    double const loss = on_cpu.forward(values.views, tokens, targets);
    std::vector<std::size_t> order;
    on_cpu.backward(values.views, expected.views, [&](std::size_t i) { order.push_back(i); });

    std::copy(tokens.begin(), tokens.end(), on_device.tokens());
    std::copy(targets.begin(), targets.end(), on_device.targets());
    auto got = used_memory<T>();
    double device_loss = 77;
    std::vector<std::size_t> device_order;
    on_device.forward(stream.get(), values.views, rows, &device_loss);
    on_device.backward(stream.get(), values.views, got.views, [&](std::size_t i) { device_order.push_back(i); });
    cudaStreamSynchronize(stream.get());

    CHECK(std::abs(device_loss - loss) <= tolerance * 10);
    CHECK(device_order == order);
    for (std::size_t p = 0; p < got.memory.size(); ++p) {
      double worst = 0;
      for (std::size_t i = 0; i < got.memory[p].size(); ++i) {
        worst = std::max(worst, std::abs(static_cast<double>(got.memory[p][i] - expected.memory[p][i])));
      }
      INFO(parameters(kTiny)[p].name);
      CHECK(worst <= tolerance);
    }
  }
}

}  // namespace

TEST_CASE("train_cuda: loss and gradients are those of the trainer on the CPU", "[process]") {
  check_against_cpu<double>(1e-12);
  check_against_cpu<float>(1e-4);
}

TEST_CASE("train_cuda: a gradient is complete when it is reported", "[process]") {
  auto const values = parameters_of<float>(kTiny, 1);
  DeviceStream const stream;
  DeviceModel<float> model(kTiny, kTokens.size());
  std::copy(kTokens.begin(), kTokens.end(), model.tokens());
  std::copy(kTargets.begin(), kTargets.end(), model.targets());
  auto gradients = used_memory<float>();
  std::vector<std::vector<float>> reported(gradients.memory.size());
  double loss = 0;
  model.forward(stream.get(), values.views, kTokens.size(), &loss);
  model.backward(stream.get(), values.views, gradients.views, [&](std::size_t i) {
    cudaStreamSynchronize(stream.get());
    reported[i] = gradients.memory[i];
  });
  cudaStreamSynchronize(stream.get());
  CHECK(reported == gradients.memory);
}

TEST_CASE("train_cuda: Adam is that of the trainer on the CPU, to the bit", "[process]") {
  constexpr std::size_t kCount = 100;
  std::vector<float> parameter(kCount);
  std::vector<float> gradient(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    parameter[i] = std::sin(static_cast<float>(i));
    gradient[i] = std::cos(static_cast<float>(i));
  }
  std::vector<float> mean(kCount);
  std::vector<float> square(kCount);
  auto device_parameter = parameter;
  auto device_mean = mean;
  auto device_square = square;
  DeviceStream const stream;
  for (std::uint64_t step = 1; step <= 5; ++step) {
    auto const factors = adam_factors({}, step);
    adam(factors, parameter, gradient, mean, square, 0.7F);
    device::adam(stream.get(), {factors.rate, factors.unbias, factors.first, factors.second, 0.7F},
                 device_parameter.data(), gradient.data(), device_mean.data(), device_square.data(), kCount);
  }
  cudaStreamSynchronize(stream.get());
  CHECK(std::memcmp(parameter.data(), device_parameter.data(), kCount * sizeof(float)) == 0);
  CHECK(mean == device_mean);
  CHECK(square == device_square);
}
