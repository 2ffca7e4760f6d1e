// GpuWatch: what is known of the GPUs of this node's workers. A program of its own asks NVIDIA's driver
// (launcher/programs/gpus_main.cpp): a driver that hangs keeps whoever calls it in the kernel, where no signal ends it,
// and the agent could not end any more. Shell.
//
// Call it on the thread of the Supervisor. It never blocks, but for a start of the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/facts/environment.hpp"
#include "launcher/live/gpus.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::launcher {

class Supervisor;

class GpuWatch {
 public:
  /// The references outlive it. `environment`: where the program finds the driver's library.
  GpuWatch(Supervisor& supervisor, Environment const& environment)
      : supervisor_(supervisor), environment_(environment) {}

  /// The GPUs of the workers that run from now on, by local rank; "" = not known.
  void of_workers(std::vector<std::string> names);
  /// Takes what the program has said since the last call. Starts the program when it is wanted and none runs, and lets
  /// it end when it is not. Where there is no driver it is started once.
  void look(bool wanted);

  [[nodiscard]] std::optional<live::Gpu> gpu_of(std::uint32_t local_rank) const {
    return local_rank < gpus_.size() ? gpus_[local_rank] : std::nullopt;
  }
  /// The program has said nothing for five seconds: the driver does not answer.
  [[nodiscard]] bool is_silent() const { return silent_; }
  [[nodiscard]] bool knows() const { return silent_ || !gpus_.empty(); }

 private:
  void start();
  bool read();
  void judge(bool heard);
  void ended();

  Supervisor& supervisor_;
  Environment const& environment_;
  std::vector<std::string> names_;
  pid_t pid_ = 0;         ///< 0: no program runs
  os::UniqueFd output_;   ///< of the program; closed: it ends once it writes
  std::string rest_;      ///< of its output: the begin of a line
  live::Gpus gpus_;       ///< by its newest line
  TimePoint heard_;       ///< when that was read
  int unheard_ = 0;       ///< looks since then
  bool spoken_ = false;   ///< this program has written a line
  bool useless_ = false;  ///< one has ended without: there is no driver
  bool silent_ = false;
};

}  // namespace cxxrun::launcher
