// How fast reductions and wire formats are beside memcpy, on one CPU: bytes read and written per second.
//
//   reduce_bench [SECONDS per line, 0.3] [portable]
//
// With "portable" what CPUs without AVX2 execute.
// "near" is in the second-level cache (three buffers of 128 KiB), "far" is in memory (of 32 MiB).
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "src/runtime/comm/kernels.hpp"
#include "src/runtime/comm/reduce.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using cxxrun::DType;
using cxxrun::ReduceOp;
using cxxrun::Wire;

constexpr std::size_t kNear = 128UL << 10U;
constexpr std::size_t kFar = 32UL << 20U;
constexpr std::size_t kMostInputs = 8;

double seconds_per_line = 0.3;
std::vector<std::vector<std::byte>> buffers;
cxxrun::comm::Kernels const* table = &cxxrun::comm::kernels();

/// GB/s of the fastest run: on a shared machine the one that was disturbed least.
double measure(std::size_t bytes_moved, std::function<void()> const& run) {
  run();
  auto const end = Clock::now() + std::chrono::duration<double>(seconds_per_line / 2);
  double best = 0;
  while (Clock::now() < end) {
    auto const start = Clock::now();
    run();
    std::chrono::duration<double> const took = Clock::now() - start;
    best = std::max(best, static_cast<double>(bytes_moved) / took.count() / 1e9);
  }
  return best;
}

void line(std::string const& name, std::function<std::function<void()>(std::size_t)> const& make,
          std::function<std::size_t(std::size_t)> const& moved) {
  std::printf("%-34s %8.1f %8.1f\n", name.c_str(), measure(moved(kNear), make(kNear)),
              measure(moved(kFar), make(kFar)));
  std::fflush(stdout);
}

void reduction(DType type, ReduceOp op, std::size_t inputs, std::size_t outputs, float scale) {
  std::string const name = std::string(cxxrun::name_of(type)) + " " + std::string(cxxrun::name_of(op)) + " of " +
                           std::to_string(inputs) + " into " + std::to_string(outputs) +
                           (scale == 1.0F ? "" : ", scaled");
  auto const make = [=](std::size_t bytes) {
    return [=] {
      std::array<void const*, kMostInputs> in{};
      std::array<void*, kMostInputs> out{};
      for (std::size_t j = 0; j < kMostInputs; ++j) {
        in[j] = out[j] = buffers[j].data();
      }
      table->reduce[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)](
          {in.data(), inputs, out.data(), outputs, bytes / cxxrun::size_of(type), scale});
    };
  };
  line(name, make, [=](std::size_t bytes) { return bytes * (inputs + outputs); });
}

float* floats(std::size_t buffer) {
  return reinterpret_cast<float*>(buffers[buffer].data());
}

void wire(Wire format, std::string const& name) {
  auto const number = static_cast<std::size_t>(format);
  std::size_t const size = cxxrun::comm::wire_size(format);
  auto const moved = [=](std::size_t bytes) { return bytes / 4 * (4 + size); };
  auto const moved_twice = [=](std::size_t bytes) { return bytes / 4 * (8 + size); };
  line(
      "f32 to " + name,
      [=](std::size_t bytes) { return [=] { table->encode[number](floats(0), buffers[1].data(), bytes / 4); }; },
      moved);
  line(
      name + " to f32",
      [=](std::size_t bytes) { return [=] { table->decode[number](buffers[1].data(), floats(2), bytes / 4); }; },
      moved);
  line(
      "f32 += " + name,
      [=](std::size_t bytes) {
        return [=] { table->accumulate_encoded[number](buffers[1].data(), floats(0), bytes / 4); };
      },
      moved_twice);
}

}  // namespace

int main(int argc, char** argv) {
  seconds_per_line = argc > 1 ? std::strtod(argv[1], nullptr) : seconds_per_line;
  if (argc > 2 && std::string(argv[2]) == "portable") {
    table = &cxxrun::comm::portable_kernels();
  }
  buffers.assign(kMostInputs, std::vector<std::byte>(kFar));
  std::printf("%-34s %8s %8s   GB/s read and written\n", "", "near", "far");
  line(
      "memcpy", [](std::size_t bytes) { return [=] { std::memcpy(buffers[1].data(), buffers[0].data(), bytes); }; },
      [](std::size_t bytes) { return bytes * 2; });
  for (auto const type : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    for (auto const op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
      reduction(type, op, 2, 1, 1.0F);
    }
  }
  for (auto const type : {DType::f32, DType::bf16}) {
    reduction(type, ReduceOp::sum, 2, 2, 1.0F);
    reduction(type, ReduceOp::sum, 2, 2, 0.5F);
    reduction(type, ReduceOp::sum, 4, 4, 1.0F);
    reduction(type, ReduceOp::sum, 8, 8, 1.0F);
  }
  wire(Wire::bf16, "bf16");
  wire(Wire::f16, "f16");
}
