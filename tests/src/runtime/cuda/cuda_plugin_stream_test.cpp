// What the plugin queues besides collectives: order between streams, copies, points, weights and norms.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "src/runtime/gradient/memory.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/cuda_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint64_t kWhile = 20'000'000;  // ns that a stream is busy, so that a missing wait shows

std::string on_one(std::function<std::string(PluginComm&)> const& body) {
  return on_devices(1, "", [&](PluginComm& comm, int) { return body(comm); });
}

template <class T>
std::vector<T> waves(std::size_t count) {
  std::vector<T> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(T(std::sin(static_cast<float>(i)) * 3.0F));
  }
  return all;
}

template <class T>
std::string multiply_like_the_cpu(PluginComm& comm) {
  auto want = waves<T>(1001);
  auto* const data = comm.upload(want);
  cxxrun_cuda_status status{};
  for (double const factor : {1.0 / 3.0, 1e3, -0.7}) {
    comm.check(
        comm.api().multiply(comm.raw(), static_cast<std::uint8_t>(dtype_of<T>), data, want.size(), factor, &status),
        status);
    gradient::multiply(dtype_of<T>, want.data(), want.size(), factor);
  }
  return comm.download(data, want.size()) == want ? "" : std::string(name_of(dtype_of<T>)) + " differs";
}

template <class T>
double squares(PluginComm& comm, std::vector<T> const& values) {
  auto* const data = comm.upload(values);
  auto* const sum = comm.upload(std::vector<double>{1.0});
  cxxrun_cuda_status status{};
  comm.check(
      comm.api().add_squares(comm.raw(), static_cast<std::uint8_t>(dtype_of<T>), data, values.size(), sum, &status),
      status);
  return comm.download(sum, 1)[0];
}

template <class T>
std::string squares_like_the_cpu(PluginComm& comm) {
  std::string wrong;
  for (std::size_t const count : {1, 255, 257, 300'000}) {
    auto const values = waves<T>(count);
    double const want = 1.0 + gradient::sum_of_squares(dtype_of<T>, values.data(), count);
    double const got = squares(comm, values);
    wrong += std::abs(got - want) <= 1e-12 * want ? "" : std::string(name_of(dtype_of<T>)) + " differs";
    wrong += got == squares(comm, values) ? "" : "not the same twice";
  }
  return wrong;
}

}  // namespace

TEST_CASE("cuda plugin: gradients are multiplied to the bits of the CPU", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          return multiply_like_the_cpu<float>(comm) + multiply_like_the_cpu<double>(comm) +
                 multiply_like_the_cpu<float16>(comm) + multiply_like_the_cpu<bfloat16>(comm);
        }) == "");
}

TEST_CASE("cuda plugin: a factor of 0 wipes out infinities and NaNs too", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          auto* const data = comm.upload(std::vector<float>{1, INFINITY, std::numeric_limits<float>::quiet_NaN()});
          cxxrun_cuda_status status{};
          comm.check(comm.api().multiply(comm.raw(), 0, data, 3, 0.0, &status), status);
          return comm.download(data, 3) == std::vector<float>(3, 0.0F) ? "" : "not zeros";
        }) == "");
}

TEST_CASE("cuda plugin: sums of squares are added, the same bits each time", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          return squares_like_the_cpu<float>(comm) + squares_like_the_cpu<double>(comm) +
                 squares_like_the_cpu<float16>(comm) + squares_like_the_cpu<bfloat16>(comm);
        }) == "");
}

TEST_CASE("cuda plugin: integers are neither multiplied nor squared", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          cxxrun_cuda_status status{};
          void* const data = comm.allocate(64);
          auto const product = comm.api().multiply(comm.raw(), 4, data, 1, 2.0, &status);
          auto const square = comm.api().add_squares(comm.raw(), 4, data, 1, static_cast<double*>(data), &status);
          return product == CXXRUN_CUDA_UNSUPPORTED && square == CXXRUN_CUDA_UNSUPPORTED ? "" : "not refused";
        }) == "");
}

TEST_CASE("cuda plugin: new memory is zero", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          auto* const data = static_cast<std::uint8_t*>(comm.allocate(100'000));
          return comm.download(data, 100'000) == std::vector<std::uint8_t>(100'000, 0) ? "" : "not zero";
        }) == "");
}

TEST_CASE("cuda plugin: what a user's stream holds comes first, and the user's stream can wait", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          auto* const data = comm.upload(std::vector<std::uint8_t>(1000, 1));
          auto* const copy = comm.upload(std::vector<std::uint8_t>(1000, 0));
          auto* const last = comm.upload(std::vector<std::uint8_t>(1000, 0));
          comm.synchronize();
          cudaStream_t user = nullptr;
          cudaStreamCreateWithFlags(&user, cudaStreamNonBlocking);
          cxxrun_cuda_status status{};
          std::uint64_t point = 0;

          cxxrun_cuda_double_spin(user, kWhile);
          cudaMemsetAsync(data, 7, 1000, user);
          comm.check(comm.api().after(comm.raw(), user, &status), status);
          comm.copy(copy, data, 1000);
          comm.check(comm.api().mark(comm.raw(), &point, &status), status);
          comm.check(comm.api().wait_on(comm.raw(), point, user, &status), status);
          cudaMemcpyAsync(last, copy, 1000, cudaMemcpyDeviceToDevice, user);
          cudaStreamSynchronize(user);

          return comm.download(last, 1000) == std::vector<std::uint8_t>(1000, 7) ? "" : "out of order";
        }) == "");
}

TEST_CASE("cuda plugin: a point is reached when everything before it is done, and never earlier", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          cudaStream_t user = nullptr;
          cudaStreamCreateWithFlags(&user, cudaStreamNonBlocking);
          cxxrun_cuda_status status{};
          std::uint64_t early = 0;
          std::uint64_t late = 0;
          comm.check(comm.api().mark(comm.raw(), &early, &status), status);
          cxxrun_cuda_double_spin(user, kWhile);
          comm.check(comm.api().after(comm.raw(), user, &status), status);
          comm.check(comm.api().mark(comm.raw(), &late, &status), status);
          auto const too_soon = comm.api().reached(comm.raw(), late, &status);
          comm.until_done([&](cxxrun_cuda_status* now) { return comm.api().reached(comm.raw(), late, now); });
          auto const before = comm.api().reached(comm.raw(), early, &status);
          auto const none = comm.api().reached(comm.raw(), late + 1, &status);
          bool const right = late == early + 1 && too_soon == CXXRUN_CUDA_IN_PROGRESS && before == CXXRUN_CUDA_OK &&
                             none == CXXRUN_CUDA_NCCL;
          return right ? "" : "wrong points";
        }) == "");
}

TEST_CASE("cuda plugin: points that nobody asks for need no more than those under way", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          cxxrun_cuda_status status{};
          std::uint64_t point = 0;
          for (int i = 0; i < 1000; ++i) {
            comm.check(comm.api().mark(comm.raw(), &point, &status), status);
            if (i % 10 == 0) {
              comm.synchronize();
            }
          }
          auto const calm = cxxrun_cuda_double_calls("cudaEventCreate");
          cudaStream_t user = nullptr;
          cudaStreamCreateWithFlags(&user, cudaStreamNonBlocking);
          cxxrun_cuda_double_spin(user, kWhile);
          comm.check(comm.api().after(comm.raw(), user, &status), status);
          for (int i = 0; i < 300; ++i) {
            comm.check(comm.api().mark(comm.raw(), &point, &status), status);
          }
          auto const first = point - 299;
          auto const still = comm.api().reached(comm.raw(), first, &status);
          comm.until_done([&](cxxrun_cuda_status* now) { return comm.api().reached(comm.raw(), point, now); });
          auto const busy = cxxrun_cuda_double_calls("cudaEventCreate");
          bool const right = calm < 100 && busy <= 600 && still == CXXRUN_CUDA_IN_PROGRESS;
          return right ? "" : std::to_string(calm) + " and " + std::to_string(busy) + " events";
        }) == "");
}

TEST_CASE("cuda plugin: what is sent may change at once, and pinned memory is used again", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          auto* const data = static_cast<int*>(comm.allocate(1'000'000 * sizeof(int)));
          std::string wrong;
          for (int round = 0; round < 10; ++round) {
            std::vector<int> values(1'000'000, round);
            comm.copy(data, values.data(), values.size() * sizeof(int));
            values.assign(values.size(), -1);
            wrong += comm.download(data, values.size()) == std::vector<int>(values.size(), round) ? "" : "wrong";
          }
          auto const blocks = cxxrun_cuda_double_calls("cudaHostAlloc");
          return wrong + (blocks <= 2 ? "" : std::to_string(blocks) + " blocks");
        }) == "");
}

TEST_CASE("cuda plugin: a copy to the host is there when its point is reached, and not touched before", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          auto* const data = comm.upload(std::vector<int>{5});
          cudaStream_t user = nullptr;
          cudaStreamCreateWithFlags(&user, cudaStreamNonBlocking);
          cxxrun_cuda_status status{};
          cxxrun_cuda_double_spin(user, kWhile);
          comm.check(comm.api().after(comm.raw(), user, &status), status);
          int value = 0;
          comm.copy(&value, data, sizeof(int));
          bool const untouched = value == 0;
          comm.synchronize();
          int other = 0;
          auto const nowhere = comm.api().copy(comm.raw(), &other, &value, sizeof(int), &status);
          return untouched && value == 5 && nowhere == CXXRUN_CUDA_NCCL ? "" : "wrong";
        }) == "");
}

TEST_CASE("cuda plugin: the caller's device is as before", "[process]") {
  CHECK(on_devices(2, "", [](PluginComm& comm, int) {
          cudaSetDevice(3);
          comm.run({comm::Kind::barrier});
          comm.synchronize();
          int device = -1;
          cudaGetDevice(&device);
          return device == 3 ? "" : "device " + std::to_string(device);
        }) == "");
}

TEST_CASE("cuda plugin: memory of a device is told from the host's", "[process]") {
  CHECK(on_one([](PluginComm& comm) {
          int here = 0;
          auto* const there = static_cast<std::uint8_t*>(comm.allocate(100));
          auto const& api = comm.api();
          cxxrun_cuda_status status{};
          auto const kind = [&](void const* memory) { return api.is_device_memory(memory, &status); };
          bool const right = kind(&here) == 0 && kind(there) == 1 && kind(there + 99) == 1 && kind(nullptr) == 0;
          return right ? "" : "wrong";
        }) == "");
}
