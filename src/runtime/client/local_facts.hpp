// Facts that a rank finds out about itself before it meets the others. Shell: environment, /proc, interfaces.
//
// Variables are read through a Lookup, because those of a later generation are not in the environment of the process.
#pragma once

#include <string>

#include "cxxrun/error.hpp"
#include "cxxrun/worker_env.hpp"
#include "src/base/worker/agent_link.hpp"
#include "src/runtime/comm/join_record.hpp"

namespace cxxrun::client {

using worker::Lookup;

/// Adds the host, and RANK if it is a number, to an error of a process whose environment is not parsed yet.
[[nodiscard]] Error from_here(Error error);

/// Equal for processes that can share memory: boot, network namespace and host name; or CXXRUN_HOST_ID if it is set.
[[nodiscard]] std::string own_host_key(Lookup const& lookup);

/// The address for other nodes: that of the interface CXXRUN_SOCKET_IFNAME, else the one from which this process
/// reaches the store. If that is loopback and there are other nodes, the first address of another interface. A literal
/// address. Errors: environment (names the variable and the existing interfaces).
[[nodiscard]] Result<std::string> own_address(WorkerEnv const& env, Lookup const& lookup);

/// A record with all fields except rail and segment.
[[nodiscard]] comm::JoinRecord own_record(WorkerEnv const& env, Lookup const& lookup);

/// The value of a variable in seconds; `fallback` if it is not set. Errors: environment.
[[nodiscard]] Result<std::chrono::milliseconds> seconds_from_environment(Lookup const& lookup, char const* name,
                                                                         std::chrono::milliseconds fallback);

}  // namespace cxxrun::client
