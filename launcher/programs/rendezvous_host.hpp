// RendezvousHost: the loop of cxxrun-rendezvous: a coordinator and stores for every step of a job, until it is told to
// end or whoever started it is gone.
//
// Blocks until then. Runs on the calling thread; the stores have one of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <sys/types.h>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/net/server.hpp"

namespace cxxrun::launcher {

struct RendezvousConfig {
  std::vector<std::uint16_t> ports;  ///< the first that is free; 0: any
  rendezvous::CoordinatorConfig coordinator;
  std::function<Result<void>(std::uint16_t port)> listening;  ///< called once; an Error ends the program
  pid_t owner = 0;                                            ///< it ends with this process; 0: with none
};

/// Ends well after SIGTERM, SIGINT or SIGHUP, or when its owner has ended: the runs are stopped first, by a
/// second signal at once. Errors: in_use (the ports), io, and what `listening` returns.
[[nodiscard]] Result<void> host_rendezvous(RendezvousConfig config);

}  // namespace cxxrun::launcher
