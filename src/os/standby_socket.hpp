// The standby socket: where an agent can be called once it has to take over from the coordinator.
//
// Opened before the fork. The parent holds a copy, so that a call is refused only when the agent and everything it has
// started is gone: until then the kernel takes the call, and nobody answers.
#pragma once

#include "cxxrun/error.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::os {

/// A listening socket on every address, on a port that the kernel chooses (IPv6 and IPv4 in one where the machine has
/// IPv6), or on 127.0.0.1 alone. Errc::io.
[[nodiscard]] Result<UniqueFd> open_standby(bool loopback_only = false);

}  // namespace cxxrun::os
