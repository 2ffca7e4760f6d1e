// The standby socket: where an agent can be called once it has to take over from the coordinator. Opened before the
// fork: agent and parent hold it (docs/design/supervision.md).
#pragma once

#include <string>

#include "cxxrun/error.hpp"
#include "src/base/os/listening.hpp"

namespace cxxrun::os {

/// A listening socket on a port that the kernel chooses: on every address, or, if not "", on that loopback address and
/// on the other one when the machine lacks it. Errc::io.
[[nodiscard]] inline Result<UniqueFd> open_standby(std::string const& loopback = "") {
  auto listening = listen_at({0, !loopback.empty()});
  if (!listening) {
    return fail(Errc::io, "no socket to take over with", listening.error().os_errno);
  }
  return std::move(loopback == "::1" ? listening->sockets.back() : listening->sockets.front());
}

}  // namespace cxxrun::os
