// Whether what is queued on the communicator's stream runs beside the user's kernels.
//
// A kernel that spins on one multiprocessor stands for the backward pass of each bucket; the multiplication of a bucket
// for its collective, which a world of one has not.
#include <cstdio>

#include "tests/gpu/gpu_check.hpp"

namespace cxxrun::gpu_check {
namespace {

constexpr int kBuckets = 8;

struct Timeline {
  double computed = 0;       ///< when the user's stream was through, in ms from the start
  std::vector<double> done;  ///< when each bucket was
};

Timeline one_step(test::PluginComm& comm, cudaStream_t user, void* data, std::size_t count, std::uint64_t nanoseconds) {
  cxxrun_cuda_status status{};
  std::vector<std::uint64_t> points(kBuckets);
  cudaEvent_t end = nullptr;
  cuda(cudaEventCreateWithFlags(&end, cudaEventDisableTiming), "cudaEventCreate");
  auto const start = Clock::now();
  for (auto& point : points) {
    spin(user, nanoseconds);
    comm.check(comm.api().after(comm.raw(), user, &status), status);
    comm.check(comm.api().multiply(comm.raw(), 0, data, count, 1.0, &status), status);
    comm.check(comm.api().mark(comm.raw(), &point, &status), status);
  }
  cuda(cudaEventRecord(end, user), "cudaEventRecord");
  Timeline times;
  while (times.done.size() < points.size() || times.computed == 0) {
    // Buckets first: if this thread was held up, what it finds at once is taken for done in this order.
    while (times.done.size() < points.size() &&
           comm.api().reached(comm.raw(), points[times.done.size()], &status) == CXXRUN_CUDA_OK) {
      times.done.push_back(milliseconds(Clock::now() - start));
    }
    if (times.computed == 0 && cudaEventQuery(end) == cudaSuccess) {
      times.computed = milliseconds(Clock::now() - start);
    }
    if (status.code != CXXRUN_CUDA_OK && status.code != CXXRUN_CUDA_IN_PROGRESS) {
      throw test::PluginError(status);
    }
  }
  cudaEventDestroy(end);
  return times;
}

}  // namespace

int check_overlap(cxxrun_cuda_api const& api, Arguments const& arguments) {
  test::PluginComm comm(api, arguments.device, test::Id(CXXRUN_CUDA_ID_BYTES), 0, 1);
  std::size_t const count = arguments.quick ? 1U << 10U : 1U << 28U;  // 1 GiB: about half a millisecond on an H200
  std::uint64_t const nanoseconds = arguments.quick ? 10'000'000 : 2'000'000;
  void* const data = comm.allocate(count * sizeof(float));
  cudaStream_t user = nullptr;
  cuda(cudaStreamCreateWithFlags(&user, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  one_step(comm, user, data, count, nanoseconds);  // the first kernels are loaded
  auto const times = one_step(comm, user, data, count, nanoseconds);
  cudaStreamDestroy(user);
  double const computing = static_cast<double>(nanoseconds) / 1e6;
  std::printf("compute %d x %.1f ms, done at %.2f ms; buckets at", kBuckets, computing, times.computed);
  for (double const at : times.done) {
    std::printf(" %.2f", at);
  }
  std::printf(" ms\nexposed %.2f ms\n", times.done.back() - times.computed);
  // Beside the computation: the bucket before the last was done while the last one was computed.
  bool const beside = times.done[kBuckets - 2] < times.computed;
  std::printf("%s: buckets %s while the next ones are computed\n", beside ? "ok" : "wrong",
              beside ? "are done" : "wait");
  return beside ? 0 : 1;
}

}  // namespace cxxrun::gpu_check
