// Access: what the classes built on a Communicator need beside its public calls.
#pragma once

#include "cxxrun/communicator.hpp"
#include "src/comm/call.hpp"
#include "src/host/common/device_queue.hpp"

namespace cxxrun::client {

struct Access {
  /// Where calls on device memory are queued; null without a device. As long as the Communicator.
  [[nodiscard]] static host::DeviceQueue* device(Communicator& comm);
  /// Any call in the background; Failure as from a blocking one.
  [[nodiscard]] static Work start(Communicator& comm, comm::Call const& call);
};

}  // namespace cxxrun::client
