// What a rank finds out about itself before it meets the others. Shell: environment, /proc, interfaces.
//
// Variables are asked of a Lookup: those of a later generation are not in the environment of the process.
#pragma once

#include <string>

#include "cxxrun/error.hpp"
#include "cxxrun/worker_env.hpp"
#include "src/base/worker/agent_link.hpp"
#include "src/runtime/comm/join_record.hpp"

namespace cxxrun::client {

using worker::Lookup;

/// `error` of a process that does not know yet who it is: with its host, and RANK if that is a number.
[[nodiscard]] Error from_here(Error error);

/// Equal for processes that can share memory: boot, network namespace and host name; CXXRUN_HOST_ID instead if set.
[[nodiscard]] std::string own_host_key(Lookup const& lookup);

/// The address other nodes should use: of the interface CXXRUN_SOCKET_IFNAME, else the one from which this process
/// reaches the store; where that is loopback and the environment speaks of other nodes, the first of another interface.
/// A literal address. Errors: environment, naming the variable and the interfaces there are.
[[nodiscard]] Result<std::string> own_address(WorkerEnv const& env, Lookup const& lookup);

/// A record with everything but rail and segment.
[[nodiscard]] comm::JoinRecord own_record(WorkerEnv const& env, Lookup const& lookup);

/// The variable as seconds; `fallback` when it is not set. Errors: environment.
[[nodiscard]] Result<std::chrono::milliseconds> seconds_from_environment(Lookup const& lookup, char const* name,
                                                                         std::chrono::milliseconds fallback);

}  // namespace cxxrun::client
