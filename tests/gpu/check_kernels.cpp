// The kernels: their bits against the CPU's, their speed against a copy within the device.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <numeric>
#include <span>
#include <thread>

#include "src/runtime/comm/element_formats.hpp"
#include "src/runtime/comm/kernels.hpp"
#include "src/runtime/cuda/device_kernels.hpp"
#include "src/runtime/gradient/memory.hpp"
#include "tests/gpu/gpu_check.hpp"
#include "tests/support/square_order.hpp"

namespace cxxrun::gpu_check {
namespace {

constexpr std::size_t kBatch = 1U << 24U;

/// The launchers are the plugin's own: the table has no cast.
struct Launchers {
  decltype(&cxxrun_cuda_launch_encode) encode;
  decltype(&cxxrun_cuda_launch_decode) decode;
  decltype(&cxxrun_cuda_launch_scale) scale;
  decltype(&cxxrun_cuda_launch_multiply) multiply;
  decltype(&cxxrun_cuda_launch_add_squares) add_squares;
};

template <class Function>
void find(void* library, char const* name, Function& function) {
  // A library that was loaded first stands in for it, as for the plugin itself.
  void* symbol = ::dlsym(RTLD_DEFAULT, name);
  symbol = symbol != nullptr ? symbol : ::dlsym(library, name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("the plugin has no ") + name);
  }
  function = reinterpret_cast<Function>(symbol);
}

Launchers launchers(std::string const& plugin) {
  void* const library = ::dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  Launchers all{};
  find(library, "cxxrun_cuda_launch_encode", all.encode);
  find(library, "cxxrun_cuda_launch_decode", all.decode);
  find(library, "cxxrun_cuda_launch_scale", all.scale);
  find(library, "cxxrun_cuda_launch_multiply", all.multiply);
  find(library, "cxxrun_cuda_launch_add_squares", all.add_squares);
  return all;
}

/// Memory of the device and the host, as large as a batch of floats.
struct Buffers {
  void* in = nullptr;
  void* out = nullptr;
  double* partial = nullptr;
  double* sum = nullptr;
  explicit Buffers(std::size_t bytes) {
    cuda(cudaMalloc(&in, bytes), "cudaMalloc");
    cuda(cudaMalloc(&out, bytes), "cudaMalloc");
    cuda(cudaMalloc(reinterpret_cast<void**>(&partial), cuda::kSquareBlocks * sizeof(double)), "cudaMalloc");
    cuda(cudaMalloc(reinterpret_cast<void**>(&sum), sizeof(double)), "cudaMalloc");
  }
  Buffers(Buffers const&) = delete;
  Buffers& operator=(Buffers const&) = delete;
  ~Buffers() {
    for (void* const memory : {in, out, static_cast<void*>(partial), static_cast<void*>(sum)}) {
      cudaFree(memory);
    }
  }
};

/// Calls it for slices of `count` elements, each on a thread: one processor takes most of a minute for all floats.
void in_slices(std::size_t count, std::function<void(std::size_t, std::size_t)> const& call) {
  auto const most = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  auto const slices = std::clamp<std::size_t>(count >> 16U, 1, most);
  std::vector<std::jthread> threads;
  for (std::size_t slice = 0; slice < slices; ++slice) {
    threads.emplace_back(call, count * slice / slices, count * (slice + 1) / slices);
  }
}

void up(void* to, void const* from, std::size_t bytes) {
  cuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}
void down(void* to, void const* from, std::size_t bytes) {
  cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

bool is_nan(std::uint8_t wire, std::uint16_t bits) {
  return (bits & 0x7fffU) > (wire == 1 ? 0x7f80U : 0x7c00U);
}

/// Floats that the kernel encodes to other bits than the CPU; all 2^32 are tried, or every 256th batch.
std::uint64_t wrong_encodings(Launchers const& launch, std::uint8_t wire, Buffers& buffers, std::size_t batch,
                              std::uint64_t step) {
  std::atomic<std::uint64_t> wrong = 0;
  std::vector<float> values(batch);
  std::vector<std::uint16_t> want(batch);
  std::vector<std::uint16_t> got(batch);
  for (std::uint64_t first = 0; first < (std::uint64_t{1} << 32U); first += step) {
    in_slices(batch, [&](std::size_t from, std::size_t to) {
      for (std::size_t i = from; i < to; ++i) {
        values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i));
      }
      comm::kernels().encode[wire](&values[from], reinterpret_cast<std::byte*>(&want[from]), to - from);
    });
    up(buffers.in, values.data(), batch * sizeof(float));
    cuda(launch.encode(wire, static_cast<float const*>(buffers.in), buffers.out, batch, 1.0F, nullptr), "encode");
    down(got.data(), buffers.out, batch * sizeof(std::uint16_t));
    in_slices(batch, [&](std::size_t from, std::size_t to) {
      std::uint64_t mine = 0;
      for (std::size_t i = from; i < to; ++i) {  // a NaN times 1 may lose its payload on a GPU
        mine += got[i] == want[i] || (std::isnan(values[i]) && is_nan(wire, got[i])) ? 0U : 1U;
      }
      wrong += mine;
    });
  }
  return wrong;
}

constexpr std::size_t kPatterns = 0x10000;
std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(kPatterns + 1);
  std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
  return patterns;
}

/// Of all 16-bit patterns, from an address that is not a multiple of 16 bytes too.
std::uint64_t wrong_decodings(Launchers const& launch, std::uint8_t wire, Buffers& buffers) {
  auto const patterns = all_patterns();
  std::uint64_t wrong = 0;
  for (std::size_t const shift : {0, 1}) {
    std::vector<float> want(kPatterns);
    std::vector<float> got(kPatterns);
    comm::kernels().decode[wire](reinterpret_cast<std::byte const*>(patterns.data() + shift), want.data(), kPatterns);
    up(buffers.in, patterns.data(), patterns.size() * sizeof(std::uint16_t));
    cuda(launch.decode(wire, static_cast<std::uint16_t const*>(buffers.in) + shift, static_cast<float*>(buffers.out),
                       kPatterns, 1.0F, nullptr),
         "decode");
    down(got.data(), buffers.out, kPatterns * sizeof(float));
    for (std::size_t i = 0; i < kPatterns; ++i) {
      // A NaN times 1 may lose its payload on a GPU.
      bool const same = std::isnan(want[i])
                            ? std::isnan(got[i])
                            : std::bit_cast<std::uint32_t>(want[i]) == std::bit_cast<std::uint32_t>(got[i]);
      wrong += same ? 0U : 1U;
    }
  }
  return wrong;
}

/// Of all patterns of 16 bits times each factor, from an address that is not a multiple of 16 bytes too: products that
/// are not the CPU's. `type`: f16 or bf16.
std::uint64_t wrong_products(Launchers const& launch, DType type, Buffers& buffers) {
  auto const number = static_cast<std::uint8_t>(type);
  auto const patterns = all_patterns();
  std::uint64_t wrong = 0;
  std::vector<std::uint16_t> got(kPatterns);
  for (double const factor : {1.0 / 3.0, 0.125, 7.0, 1e-6}) {
    for (std::size_t const shift : {0, 1}) {
      std::vector<std::uint16_t> want(patterns.begin() + static_cast<std::ptrdiff_t>(shift), patterns.end());
      gradient::multiply(type, want.data(), kPatterns, factor);
      for (bool const scales : {true, false}) {
        up(buffers.in, patterns.data(), patterns.size() * sizeof(std::uint16_t));
        auto* const data = static_cast<std::uint16_t*>(buffers.in) + shift;
        auto* const to = scales ? static_cast<std::uint16_t*>(buffers.out) + shift : data;
        cuda(scales ? launch.scale(number, data, to, kPatterns, static_cast<float>(factor), nullptr)
                    : launch.multiply(number, data, kPatterns, factor, nullptr),
             "a product");
        down(got.data(), to, kPatterns * sizeof(std::uint16_t));
        for (std::size_t i = 0; i < kPatterns; ++i) {
          std::uint8_t const wire = type == DType::bf16 ? 1 : 2;
          wrong += got[i] == want[i] || (is_nan(wire, got[i]) && is_nan(wire, want[i])) ? 0U : 1U;
        }
      }
    }
  }
  return wrong;
}

/// Sums of squares that have other bits than those of the CPU in the same order, and products that have.
template <class Format>
std::uint64_t wrong_squares(Launchers const& launch, DType type, Buffers& buffers) {
  auto const number = static_cast<std::uint8_t>(type);
  std::uint64_t wrong = 0;
  for (std::size_t const count : {100'000, 100'003, 5, 0}) {
    for (std::size_t const shift : {0, 1}) {
      std::vector<typename Format::Stored> values(count + shift);
      for (std::size_t i = 0; i < values.size(); ++i) {
        // Far apart, so that sums round differently in another order.
        float const value = std::ldexp(std::sin(static_cast<float>(i)) * 3.0F, static_cast<int>(i * 7 % 25) - 12);
        values[i] = Format::stored_of(static_cast<typename Format::Value>(value));
      }
      auto* const data = static_cast<typename Format::Stored*>(buffers.in) + shift;
      auto const bytes = count * sizeof(typename Format::Stored);
      double sum = 1;
      up(buffers.in, values.data(), values.size() * sizeof(typename Format::Stored));
      up(buffers.sum, &sum, sizeof(sum));
      cuda(launch.add_squares(number, data, count, buffers.partial, buffers.sum, nullptr), "add_squares");
      cuda(launch.multiply(number, data, count, 1.0 / 3.0, nullptr), "multiply");
      down(&sum, buffers.sum, sizeof(sum));
      auto* const mine = values.data() + shift;
      wrong += sum == 1 + test::squares_in_order<Format>(mine, count) ? 0U : 1U;
      gradient::multiply(type, mine, count, 1.0 / 3.0);
      std::vector<typename Format::Stored> got(count);
      down(got.data(), data, bytes);
      wrong += std::equal(got.begin(), got.end(), mine) ? 0U : 1U;
    }
  }
  return wrong;
}

/// Median GB/s of bytes read and written.
double speed(std::size_t bytes, int rounds, std::function<cudaError_t()> const& launch) {
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  cuda(cudaEventCreate(&from), "cudaEventCreate");
  cuda(cudaEventCreate(&to), "cudaEventCreate");
  std::vector<double> all;
  for (int round = 0; round < rounds + 2; ++round) {
    cuda(cudaEventRecord(from, nullptr), "cudaEventRecord");
    cuda(launch(), "the kernel");
    cuda(cudaEventRecord(to, nullptr), "cudaEventRecord");
    cuda(cudaEventSynchronize(to), "cudaEventSynchronize");
    float time = 0;
    cuda(cudaEventElapsedTime(&time, from, to), "cudaEventElapsedTime");
    if (round >= 2) {
      all.push_back(static_cast<double>(bytes) / static_cast<double>(time) / 1e6);
    }
  }
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  return median(all);
}

void print_speeds(Launchers const& launch) {
  constexpr std::size_t count = 1U << 26U;  // 256 MiB: more than any cache
  constexpr int rounds = 20;
  Buffers buffers(count * sizeof(float));
  auto const* const in = static_cast<float const*>(buffers.in);
  auto* const out = static_cast<float*>(buffers.out);
  double const copy =
      speed(8 * count, rounds, [&] { return cudaMemcpyAsync(out, in, 4 * count, cudaMemcpyDeviceToDevice, nullptr); });
  std::printf("copy %.0f GB/s\n", copy);
  auto const print = [&](char const* what, char const* type, std::size_t bytes,
                         std::function<cudaError_t()> const& run) {
    double const got = speed(bytes * count, rounds, run);
    std::printf("%s %s %.0f GB/s (%.0f %% of copy)\n", what, type, got, 100 * got / copy);
  };
  print("encode", "bf16", 6, [&] { return launch.encode(1, in, out, count, 0.5F, nullptr); });
  print("encode", "f16", 6, [&] { return launch.encode(2, in, out, count, 0.5F, nullptr); });
  print("decode", "bf16", 6, [&] { return launch.decode(1, in, out, count, 0.5F, nullptr); });
  print("decode", "f16", 6, [&] { return launch.decode(2, in, out, count, 0.5F, nullptr); });
  for (auto const& [type, name] : {std::pair(DType::f32, "f32"), std::pair(DType::f16, "f16"),
                                   std::pair(DType::bf16, "bf16"), std::pair(DType::f64, "f64")}) {
    auto const number = static_cast<std::uint8_t>(type);
    auto const bytes = size_of(type);
    auto const elements = 4 * count / bytes;  // as many bytes of each
    print("scale", name, 8, [&] { return launch.scale(number, out, out, elements, 1.0F, nullptr); });
    print("multiply", name, 8, [&] { return launch.multiply(number, out, elements, 1.0, nullptr); });
    print("squares", name, 4,
          [&] { return launch.add_squares(number, out, elements, buffers.partial, buffers.sum, nullptr); });
  }
}

}  // namespace

int check_kernels(cxxrun_cuda_api const& /*api*/, Arguments const& arguments) {
  auto const launch = launchers(arguments.plugin);
  if (!arguments.quick) {  // of small sizes a launch takes longer than the work
    print_speeds(launch);
    std::fflush(stdout);  // in case that the row's time is over
  }
  std::size_t const batch = arguments.quick ? 1U << 12U : kBatch;
  std::uint64_t const step = arguments.quick ? 1U << 20U : kBatch;
  Buffers buffers(std::max<std::size_t>(1U << 20U, batch * sizeof(float)));
  std::uint64_t wrong =
      wrong_squares<comm::F32>(launch, DType::f32, buffers) + wrong_squares<comm::F64>(launch, DType::f64, buffers) +
      wrong_squares<comm::F16>(launch, DType::f16, buffers) + wrong_squares<comm::BF16>(launch, DType::bf16, buffers) +
      wrong_products(launch, DType::f16, buffers) + wrong_products(launch, DType::bf16, buffers);
  for (auto const wire : {std::uint8_t{1}, std::uint8_t{2}}) {
    wrong += wrong_encodings(launch, wire, buffers, batch, step) + wrong_decodings(launch, wire, buffers);
  }
  auto const tried = (std::uint64_t{1} << 32U) / step * batch;
  std::printf(
      "%s: %llu of %llu floats, 65536 patterns in two formats, their products and sums differ from the CPU's bits\n",
      wrong == 0 ? "ok" : "wrong", static_cast<unsigned long long>(wrong), static_cast<unsigned long long>(tried));
  return wrong == 0 ? 0 : 1;
}

}  // namespace cxxrun::gpu_check
