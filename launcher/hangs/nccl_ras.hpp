// NcclRas: a port for the RAS service of a node's workers, and what that says of NCCL's communicators. Shell.
//
// NCCL 2.24 and newer has such a service in each process. All processes of a node listen at one address (SO_REUSEPORT),
// and one of them answers for the whole job. It is evidence for people: nothing is decided by it.
#pragma once

#include <string>

#include "launcher/plan/worker_plan.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::launcher {

/// On a node with NVIDIA GPUs: keeps a port for as long as the socket is open, and puts its address into `facts`. At
/// NCCL's own port, 28028, another job of the node may listen.
[[nodiscard]] os::UniqueFd keep_ras_port(NodeFacts& facts);

inline constexpr Millis kRasPatience{5000};

/// The answer to kRasQuestion, at most 64 KiB of it, as the service wrote it; or a line that says why there is none.
/// `address`: NCCL_RAS_ADDR. Blocks for up to kRasPatience.
[[nodiscard]] std::string ask_ras(std::string const& address);

}  // namespace cxxrun::launcher
