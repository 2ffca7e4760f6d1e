// The kernels: their bits against the CPU's, their speed against a copy within the device.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <span>

#include "src/comm/kernels.hpp"
#include "src/cuda/kernels.hpp"
#include "src/gradient/elements.hpp"
#include "tests/gpu/gpu_check.hpp"

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

std::vector<float> floats_from(std::uint32_t first, std::size_t count) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = std::bit_cast<float>(first + static_cast<std::uint32_t>(i));
  }
  return all;
}

void up(void* to, void const* from, std::size_t bytes) {
  cuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}
void down(void* to, void const* from, std::size_t bytes) {
  cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

/// Floats that the kernel encodes to other bits than the CPU; all 2^32 are tried, or every 256th batch.
std::uint64_t wrong_encodings(Launchers const& launch, std::uint8_t wire, Buffers& buffers, std::size_t batch,
                              std::uint64_t step) {
  std::uint64_t wrong = 0;
  std::vector<std::uint16_t> want(batch);
  std::vector<std::uint16_t> got(batch);
  for (std::uint64_t first = 0; first < (std::uint64_t{1} << 32U); first += step) {
    auto const values = floats_from(static_cast<std::uint32_t>(first), batch);
    comm::kernels().encode[wire](values.data(), reinterpret_cast<std::byte*>(want.data()), batch);
    up(buffers.in, values.data(), batch * sizeof(float));
    cuda(launch.encode(wire, static_cast<float const*>(buffers.in), buffers.out, batch, 1.0F, nullptr), "encode");
    down(got.data(), buffers.out, batch * sizeof(std::uint16_t));
    for (std::size_t i = 0; i < batch; ++i) {
      wrong += got[i] == want[i] ? 0U : 1U;
    }
  }
  return wrong;
}

/// Of all 16-bit patterns, from an address that is not a multiple of 16 bytes too.
std::uint64_t wrong_decodings(Launchers const& launch, std::uint8_t wire, Buffers& buffers) {
  constexpr std::size_t kPatterns = 0x10000;
  std::vector<std::uint16_t> patterns(kPatterns + 1);
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] = static_cast<std::uint16_t>(i);
  }
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

bool products_and_squares_are_right(Launchers const& launch, Buffers& buffers) {
  std::vector<float> values(100'003);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) * 3.0F;
  }
  up(buffers.in, values.data(), values.size() * sizeof(float));
  double const zero = 0;
  up(buffers.sum, &zero, sizeof(zero));
  cuda(launch.multiply(0, buffers.in, values.size(), 1.0 / 3.0, nullptr), "multiply");
  cuda(launch.add_squares(0, buffers.in, values.size(), buffers.partial, buffers.sum, nullptr), "add_squares");
  auto got = values;
  double sum = 0;
  down(got.data(), buffers.in, got.size() * sizeof(float));
  down(&sum, buffers.sum, sizeof(sum));
  gradient::multiply(DType::f32, values.data(), values.size(), 1.0 / 3.0);
  double const want = gradient::sum_of_squares(DType::f32, values.data(), values.size());
  return got == values && std::abs(sum - want) <= 1e-12 * want;
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

void print_speeds(Launchers const& launch, bool quick) {
  std::size_t const count = quick ? 1U << 12U : 1U << 26U;  // 256 MiB: more than any cache
  int const rounds = quick ? 1 : 20;
  Buffers buffers(count * sizeof(float));
  auto const* const in = static_cast<float const*>(buffers.in);
  auto* const out = static_cast<float*>(buffers.out);
  double const copy =
      speed(8 * count, rounds, [&] { return cudaMemcpyAsync(out, in, 4 * count, cudaMemcpyDeviceToDevice, nullptr); });
  std::printf("copy %.0f GB/s\n", copy);
  auto const print = [&](char const* name, std::size_t bytes, std::function<cudaError_t()> const& run) {
    double const got = speed(bytes * count, rounds, run);
    std::printf("%s %.0f GB/s (%.0f %% of copy)\n", name, got, 100 * got / copy);
  };
  print("encode bf16", 6, [&] { return launch.encode(1, in, out, count, 0.5F, nullptr); });
  print("encode f16", 6, [&] { return launch.encode(2, in, out, count, 0.5F, nullptr); });
  print("decode bf16", 6, [&] { return launch.decode(1, in, out, count, 0.5F, nullptr); });
  print("decode f16", 6, [&] { return launch.decode(2, in, out, count, 0.5F, nullptr); });
  print("scale f32", 8, [&] { return launch.scale(0, out, out, count, 1.0F, nullptr); });
  print("multiply f32", 8, [&] { return launch.multiply(0, out, count, 1.0, nullptr); });
  print("squares f32", 4, [&] { return launch.add_squares(0, out, count, buffers.partial, buffers.sum, nullptr); });
}

}  // namespace

int check_kernels(cxxrun_cuda_api const& /*api*/, Arguments const& arguments) {
  auto const launch = launchers(arguments.plugin);
  std::size_t const batch = arguments.quick ? 1U << 12U : kBatch;
  std::uint64_t const step = arguments.quick ? 1U << 20U : kBatch;
  Buffers buffers(batch * sizeof(float) < (1U << 19U) ? 1U << 19U : batch * sizeof(float));
  std::uint64_t wrong = products_and_squares_are_right(launch, buffers) ? 0 : 1;
  for (auto const wire : {std::uint8_t{1}, std::uint8_t{2}}) {
    wrong += wrong_encodings(launch, wire, buffers, batch, step) + wrong_decodings(launch, wire, buffers);
  }
  print_speeds(launch, arguments.quick);
  auto const tried = (std::uint64_t{1} << 32U) / step * batch;
  std::printf("%s: %llu of %llu floats and 65536 patterns in two formats differ from the CPU's bits\n",
              wrong == 0 ? "ok" : "wrong", static_cast<unsigned long long>(wrong),
              static_cast<unsigned long long>(tried));
  return wrong == 0 ? 0 : 1;
}

}  // namespace cxxrun::gpu_check
