// PortPlan: where a generation's store listens, and what MASTER_PORT says. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "src/base/core/port_sequence.hpp"

namespace cxxrun::rendezvous {

struct PortPlan {
  std::vector<std::uint16_t> store;     ///< tried in this order; 0: the kernel chooses
  bool demanded = false;                ///< by --master-port: no other will do
  std::optional<std::uint16_t> master;  ///< nothing: the store's; 0: one that is free, for rank 0 to bind
  bool operator==(PortPlan const&) const = default;
};

/// With the agent's store MASTER_PORT is the store, and --master-port says where it listens. Without it the store is
/// for cxxrun alone, and --master-port says where rank 0 will listen. `elected`: this coordinator has taken the run
/// over, perhaps on the host of the one before it, whose port is held there; rather another one than no job.
[[nodiscard]] inline PortPlan plan_ports(Terms const& terms, PortRange range, bool elected = false) {
  PortPlan plan;
  if (!terms.agent_store) {
    plan.master = terms.master_port;
  } else if (terms.master_port != 0) {
    return elected ? PortPlan{{terms.master_port, 0}, false, std::nullopt}
                   : PortPlan{{terms.master_port}, true, std::nullopt};
  }
  for (std::uint32_t port = range.first; port <= range.last; ++port) {
    plan.store.push_back(static_cast<std::uint16_t>(port));
  }
  return plan;
}

}  // namespace cxxrun::rendezvous
