// Access: what the classes built on a Communicator need beside its public calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cxxrun/communicator.hpp"
#include "src/base/core/call.hpp"
#include "src/base/core/time.hpp"
#include "src/runtime/cpu/common/device_queue.hpp"

namespace cxxrun::client {

struct Ending;

/// How a refusal of device memory ends in a Communicator without a device.
[[nodiscard]] inline std::string out_of_reach_text() {
  return ": a buffer is memory of a GPU, and this Communicator adds up in the host's; copy the values to host memory, "
         "or ask for NCCL on all ranks (Options::backend, CXXRUN_BACKEND=nccl)";
}

struct Access {
  /// Where calls on device memory are queued; null without a device. As long as the Communicator.
  [[nodiscard]] static host::DeviceQueue* device(Communicator& comm);
  /// Whether it is memory of a device, with one or without.
  [[nodiscard]] static bool on_device(Communicator& comm, void const* memory);
  /// Any call in the background; Failure as from a blocking one.
  [[nodiscard]] static Work start(Communicator& comm, comm::Call const& call);
  /// The same, blocking.
  static void run(Communicator& comm, comm::Call const& call);
  /// Blocks until it is done (true; throws what the call failed with), but only for so long (false). 0 only looks.
  [[nodiscard]] static bool wait_for(Work const& work, Millis most);
  /// Of the present generation (src/runtime/client/ending.hpp). May outlive the Communicator.
  [[nodiscard]] static std::unique_ptr<Ending> ending(Communicator const& comm);
  /// The generation that this process was in before the present one; 0: none.
  [[nodiscard]] static std::uint64_t met_before(Communicator const& comm);
};

}  // namespace cxxrun::client
