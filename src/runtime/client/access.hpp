// Access: what the classes built on a Communicator need besides its public calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cxxrun/communicator.hpp"
#include "src/base/core/call.hpp"
#include "src/base/core/time.hpp"
#include "src/runtime/cpu/common/backend.hpp"

namespace cxxrun::client {

struct Ending;

/// The end of a message that refuses device memory in a Communicator without a device.
[[nodiscard]] inline std::string out_of_reach_text() {
  return ": a buffer is memory of a GPU, but this Communicator works on host memory; copy the values to host memory, "
         "or "
         "ask for NCCL on all ranks (Options::backend, CXXRUN_BACKEND=nccl)";
}

struct Access {
  /// The queue for calls on device memory; null without a device. Lives as long as the Communicator.
  [[nodiscard]] static host::DeviceQueue* device(Communicator& comm);
  /// Whether `memory` is device memory; works with and without a device backend.
  [[nodiscard]] static bool on_device(Communicator& comm, void const* memory);
  /// Starts any call in the background. Failure as from a blocking call.
  [[nodiscard]] static Work start(Communicator& comm, comm::Call const& call);
  /// Makes any call and blocks until it is done.
  static void run(Communicator& comm, comm::Call const& call);
  /// Waits for at most `most` (0 only tests). True: done; throws the failure of the call. False: not done yet.
  [[nodiscard]] static bool wait_for(Work const& work, Millis most);
  /// Watches the current generation (src/runtime/client/interruption.hpp). May outlive the Communicator.
  [[nodiscard]] static std::unique_ptr<Ending> ending(Communicator const& comm);
  /// The generation that this process took part in before the current one; 0: none.
  [[nodiscard]] static std::uint64_t met_before(Communicator const& comm);
};

}  // namespace cxxrun::client
