// What gpu_check consists of: one function per row of the table that tests/gpu/lease prints.
//
// Each prints lines, the last of which begins with "ok" or "wrong", and returns an exit code. They use the plugin
// through its table, as libcxxrun does, and CUDA's runtime for streams and times of their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/support/cuda_plugin.hpp"

namespace cxxrun::gpu_check {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string plugin;
  std::string id;       ///< file through which rank 0 gives the others NCCL's unique id
  std::string next_id;  ///< the same for the communicator after a failure
  int rank = 0;
  int world = 1;
  int device = 0;
  double seconds = 0;  ///< for a check that repeats: not longer than that, where it is not 0
  bool quick = false;  ///< small and few: shows that it runs
  bool dies = false;   ///< this rank kills or stops itself while a collective is under way
};

int check_kernels(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_all_reduce(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_survival(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_host_cost(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_alone(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_overlap(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_stop(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_abort_memory(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_driver(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_fault(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_capture(cxxrun_cuda_api const& api, Arguments const& arguments);
int check_large(cxxrun_cuda_api const& api, Arguments const& arguments);

/// Rank 0 makes the id and writes the file, the others wait for it.
test::Id shared_id(cxxrun_cuda_api const& api, std::string const& file, int rank);

/// Of all ranks; the id comes by way of `file`.
test::PluginComm open_comm(cxxrun_cuda_api const& api, Arguments const& arguments, std::string const& file);

/// What a check of two ranks does again and again, at most so often and as long as its seconds last: rank 0 knows when
/// they are over, and tells the other one.
class Rounds {
 public:
  Rounds(Arguments const& arguments, int most) : arguments_(arguments), most_(most) {}
  bool next();
  /// Of this round: the id of its communicator.
  [[nodiscard]] std::string file() const { return arguments_.id + "." + std::to_string(number_); }

 private:
  Arguments const& arguments_;
  int most_;
  int number_ = 0;
  Clock::time_point began_ = Clock::now();
  Clock::time_point last_ = began_;
  Clock::duration longest_{};
};

/// Throws what CUDA says.
void cuda(cudaError_t error, char const* what);
double median(std::vector<double> values);
inline double milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

/// An all_reduce of f32 in place.
comm::Call sum_of(void* data, std::size_t count, Wire wire = Wire::same);
/// Fills it with numbers of this rank, sums it, and compares: whether all elements are right.
bool sum_is_right(test::PluginComm& comm, comm::Call const& call, int rank, int world);

/// A kernel on `stream` that keeps one multiprocessor busy for so long.
void spin(cudaStream_t stream, std::uint64_t nanoseconds);
/// One that takes the device from this process. On the double it is lost at once.
void trap(cudaStream_t stream);

}  // namespace cxxrun::gpu_check
