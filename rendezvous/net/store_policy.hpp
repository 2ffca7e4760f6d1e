// StorePolicy: what a run decides about its generations' store. At which ports it listens, what MASTER_PORT says, and
// which agents are asked who owns a connection to it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"
#include "src/base/core/ports.hpp"
#include "src/base/store/admission.hpp"

namespace cxxrun::rendezvous {

// ---- ports ----------------------------------------------------------------------------------------

struct PortPlan {
  std::vector<std::uint16_t> store;     ///< tried in this order; 0: the kernel's choice
  bool demanded = false;                ///< by --master-port: no other port will do
  std::optional<std::uint16_t> master;  ///< nothing: the store's; 0: a free port, for rank 0 to bind
  bool operator==(PortPlan const&) const = default;
};

/// With --agent-store MASTER_PORT is the store's port, and --master-port sets it. Without it the store is for cxxrun
/// alone, and --master-port is the port that rank 0 will bind.
/// `elected`: this coordinator has taken the run over. The port may then still be held on this host by the coordinator
/// before it, so any other will do.
[[nodiscard]] PortPlan plan_ports(Terms const& terms, PortRange range, bool elected = false);

// ---- callers --------------------------------------------------------------------------------------

/// The addresses of each agent's host.
class AddressBook {
 public:
  /// Replaces what the agent announced before. `from`: the address that it calls from; `to`: the one that it called.
  void announce(AgentId agent, HostAddresses host, std::string const& from, std::string const& to);
  void forget(AgentId agent);
  /// The agents that may know the owner of callers at this address; for loopback, those on this host.
  [[nodiscard]] std::set<AgentId> const& at(TcpEnd const& caller) const;

 private:
  std::map<AgentId, std::vector<std::string>> addresses_;
  std::map<std::string, std::set<AgentId>> agents_;  // by address
};

/// What is known about callers at once, and which agents to ask about the rest.
struct Inquiry {
  std::vector<store::CallerNews> known;
  std::vector<std::pair<AgentId, WhoseCalls>> ask;  ///< several for one agent if a message has no room for all calls
};
/// At most this many of the agents at one address are asked.
inline constexpr std::size_t kMostAsked = 64;
[[nodiscard]] Inquiry inquire(AddressBook const& book, store::StoreAccess access, std::uint64_t number,
                              std::vector<store::CallerQuestion> const& questions);

}  // namespace cxxrun::rendezvous
