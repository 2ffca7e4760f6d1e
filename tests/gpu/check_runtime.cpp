// What needs the whole runtime: two ranks under cxxrun. Rank 0 tells what came of it.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "cxxrun/gradient_synchronizer.hpp"
#include "tests/gpu/gpu_check.hpp"

namespace cxxrun::gpu_check {
namespace {

constexpr std::size_t kCount = 1U << 20U;

/// A stream of the program's.
struct OwnStream {
  cudaStream_t get = nullptr;
  OwnStream() { cuda(cudaStreamCreateWithFlags(&get, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  OwnStream(OwnStream const&) = delete;
  OwnStream& operator=(OwnStream const&) = delete;
  ~OwnStream() { cudaStreamDestroy(get); }
};

/// All elements of the first rank are 1, of the second 2.
void fill(std::span<float> data, int rank) {
  std::vector<float> const mine(data.size(), static_cast<float>(rank + 1));
  cuda(cudaMemcpy(data.data(), mine.data(), data.size_bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
}

bool is_sum(std::span<float const> data) {
  std::vector<float> got(data.size());
  cuda(cudaMemcpy(got.data(), data.data(), data.size_bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return got == std::vector<float>(data.size(), 3.0F);
}

bool sums_are_right(Communicator& comm) {
  auto arena = comm.arena(kCount * sizeof(float));
  auto const data = arena.allocate<float>(kCount);
  fill(data, comm.rank());
  comm.all_reduce(data);
  return is_sum(data);
}

int end(Communicator& comm, bool right, char const* what) {
  if (comm.rank() == 0) {
    std::printf("%s: %s\n", right ? "ok" : "wrong", what);
  }
  return right ? 0 : 1;
}

/// "VmHWM 812 MiB" of this process.
std::string memory_of_process() {
  std::string said;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    for (char const* const name : {"VmHWM:", "VmLck:", "VmPin:"}) {
      if (line.starts_with(name)) {
        said += (said.empty() ? "" : ", ") + std::string(name, 5) + " " +
                std::to_string(std::strtoull(line.c_str() + 6, nullptr, 10) >> 10U) + " MiB";
      }
    }
  }
  return said;
}

}  // namespace

int check_fault(cxxrun_cuda_api const& /*api*/, Arguments const& /*arguments*/) {
  Communicator::Options options;
  options.survive = true;
  auto comm = Communicator::init(options);
  bool right = sums_are_right(comm);
  if (comm.generation() > 1) {  // the replacement
    return end(comm, right, "sums with the replacement");
  }
  auto arena = comm.arena(kCount * sizeof(float));
  auto const data = arena.allocate<float>(kCount);
  auto const from = Clock::now();
  try {
    if (comm.rank() == 1) {
      trap(nullptr);
    }
    while (true) {  // rank 1 does not come out of it
      comm.all_reduce(data);
    }
  } catch (PeerFailure const& failure) {
    std::printf("thrown after %.1f ms: %s\n", milliseconds(Clock::now() - from), failure.what());
    bool const died = failure.rank() == 1 && failure.why() == PeerFailure::Why::died;
    right = right && (died || failure.why() == PeerFailure::Why::stopped);  // the launcher may be first to see it
  }
  auto const failed = Clock::now();
  comm.rebuild();
  std::printf("rebuilt in %.1f ms\n", milliseconds(Clock::now() - failed));
  return end(comm, sums_are_right(comm) && right, "rank 1 has died, and the sums with its replacement are right");
}

int check_capture(cxxrun_cuda_api const& /*api*/, Arguments const& /*arguments*/) {
  auto comm = Communicator::init();
  auto arena = comm.arena(2 * (kCount * sizeof(float) + Arena::kAlignment));
  auto const first = arena.allocate<float>(kCount);
  auto const second = arena.allocate<float>(kCount);
  OwnStream const calls;
  OwnStream const captured;
  fill(first, comm.rank());
  fill(second, comm.rank());
  auto const start = [&](std::span<float> data) {
    return comm.start_all_reduce(data.data(), data.data(), data.size(), DType::f32, ReduceOp::sum, Wire::same, 1.0F,
                                 Stream{calls.get});
  };
  spin(captured.get, 1000);  // its kernel is loaded
  comm.barrier();
  // One rank comes later, so that the other one's call is under way as long as its capture.
  std::this_thread::sleep_for(std::chrono::milliseconds(comm.rank() == 0 ? 0 : 500));
  auto before = start(first);
  cuda(cudaStreamBeginCapture(captured.get, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  bool const under_way = !before.done();
  spin(captured.get, 1000);
  auto beside = start(second);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  cudaGraph_t graph = nullptr;
  auto const ended = cudaStreamEndCapture(captured.get, &graph);
  before.wait();
  beside.wait();
  bool const right = is_sum(first) && is_sum(second);
  if (comm.rank() == 0) {
    std::printf("the call before it was %s; the capture ended with %s\n", under_way ? "under way" : "done",
                cudaGetErrorName(ended));
  }
  comm.barrier();
  return end(comm, right && ended == cudaSuccess, "two calls and a capture in global mode, side by side");
}

int check_large(cxxrun_cuda_api const& /*api*/, Arguments const& arguments) {
  constexpr std::size_t kParameters = 64;
  std::size_t const count = (arguments.quick ? std::size_t{1} << 22U : std::size_t{1} << 28U) / kParameters;
  auto comm = Communicator::init();
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < kParameters; ++i) {
    parameters.push_back({"p" + std::to_string(i), count});
  }
  GradientSynchronizer sync(comm, parameters);
  auto const before = memory_of_process();
  std::vector<double> seconds;
  bool right = true;
  for (int step = 0; step < 3; ++step) {
    comm.barrier();
    auto const from = Clock::now();
    for (std::size_t i = 0; i < kParameters; ++i) {  // not in the order of the first layout
      cuda(cudaMemsetAsync(sync.gradient_data(i), comm.rank() == 0 ? 0 : 0x40, count * sizeof(float), nullptr),
           "memset");
      sync.mark_ready(i);
    }
    sync.wait();
    seconds.push_back(milliseconds(Clock::now() - from) / 1000);
    std::uint32_t const word = 0x40404040;
    float mine = 0;
    std::memcpy(&mine, &word, sizeof(mine));
    for (std::size_t i = 0; i < kParameters; ++i) {
      float last = 0;
      auto const* const at = sync.gradient<float>(i).data() + count - 1;
      cuda(cudaMemcpy(&last, at, sizeof(last), cudaMemcpyDeviceToHost), "cudaMemcpy");
      right = right && last == mine / 2;
    }
  }
  if (comm.rank() == 0) {
    std::printf("%zu MiB of gradients: steps of %.3f, %.3f and %.3f s\n", count * kParameters * sizeof(float) >> 20U,
                seconds[0], seconds[1], seconds[2]);
    std::printf("before %s; afterwards %s\n", before.c_str(), memory_of_process().c_str());
  }
  return end(comm, right, "means of three steps");
}

}  // namespace cxxrun::gpu_check
