#include "rendezvous/net/store_policy.hpp"

#include <algorithm>

#include "src/base/core/endpoint.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr char const* kThisHost = "127.0.0.1";  // stands for every loopback address

}  // namespace

PortPlan plan_ports(Terms const& terms, PortRange range, bool elected) {
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

void AddressBook::announce(AgentId agent, HostAddresses host, std::string const& from, std::string const& to) {
  forget(agent);
  auto& all = host.addresses;
  bool const here = is_loopback(from) || std::find(all.begin(), all.end(), to) != all.end();
  all.push_back(here ? kThisHost : from);
  for (auto const& address : all) {
    agents_[address].insert(agent);
  }
  addresses_[agent] = std::move(all);
}

void AddressBook::forget(AgentId agent) {
  auto const gone = addresses_.extract(agent);
  if (gone.empty()) {
    return;
  }
  for (auto const& address : gone.mapped()) {
    if (auto const it = agents_.find(address); it != agents_.end()) {
      it->second.erase(agent);
      if (it->second.empty()) {
        agents_.erase(it);
      }
    }
  }
}

std::set<AgentId> const& AddressBook::at(TcpEnd const& caller) const {
  static std::set<AgentId> const nobody;
  auto const it = agents_.find(is_loopback(caller) ? kThisHost : address_text(caller));
  return it == agents_.end() ? nobody : it->second;
}

Inquiry inquire(AddressBook const& book, store::StoreAccess access, std::uint64_t number,
                std::vector<store::CallerQuestion> const& questions) {
  Inquiry inquiry;
  std::map<AgentId, std::size_t> last;  // index of the agent's message that has room
  for (auto const& question : questions) {
    auto const& agents = book.at(question.ends.caller);
    bool const known = access == store::StoreAccess::hosts && !agents.empty();
    auto const asked = known ? std::size_t{1} : std::min(agents.size(), kMostAsked);
    inquiry.known.emplace_back(store::HostsAsked{question.id, static_cast<std::uint32_t>(asked)});
    if (known) {
      inquiry.known.emplace_back(store::OwnerFound{question.id, {store::Owner::Kind::ours, 0, {}}});
      continue;
    }
    auto agent = agents.begin();
    for (std::size_t i = 0; i < asked; ++i, ++agent) {
      auto const [it, first] = last.try_emplace(*agent, 0);
      if (first || inquiry.ask[it->second].second.calls.size() == kMaxCalls) {
        it->second = inquiry.ask.size();
        inquiry.ask.push_back({*agent, {number, {}}});
      }
      inquiry.ask[it->second].second.calls.push_back(question);
    }
  }
  return inquiry;
}

}  // namespace cxxrun::rendezvous
