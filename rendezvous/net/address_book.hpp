// AddressBook: at which addresses the hosts of a run's agents are, and whom to ask about callers of a store. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/agent_id.hpp"
#include "src/base/store/admission.hpp"

namespace cxxrun::rendezvous {

class AddressBook {
 public:
  /// `from`: where the agent calls from; `to`: which address it has called. Replaces what it has told before.
  void announce(AgentId agent, HostAddresses host, std::string const& from, std::string const& to);
  void forget(AgentId agent);
  /// The agents that may know of callers from this address. Those on this host for loopback.
  [[nodiscard]] std::set<AgentId> const& at(TcpEnd const& caller) const;

 private:
  std::map<AgentId, std::vector<std::string>> addresses_;
  std::map<std::string, std::set<AgentId>> agents_;  // by address
};

/// What is known at once, and what is to be asked, of whom.
struct Inquiry {
  std::vector<store::CallerNews> known;
  std::vector<std::pair<AgentId, WhoseCalls>> ask;  ///< several for one agent when it is asked much
};
/// Of agents at one address no more than this are asked.
inline constexpr std::size_t kMostAsked = 64;
[[nodiscard]] Inquiry inquire(AddressBook const& book, store::StoreAccess access, std::uint64_t number,
                              std::vector<store::CallerQuestion> const& questions);

}  // namespace cxxrun::rendezvous
