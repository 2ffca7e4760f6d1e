#include "rendezvous/net/host_owners.hpp"

#include <algorithm>
#include <iterator>

#include "src/core/endpoint.hpp"
#include "src/os/local_address.hpp"

namespace cxxrun::rendezvous {

/// Some hosts have the address at which others reach them on their loopback interface.
HostAddresses host_addresses(std::string const& also) {
  HostAddresses host;
  if (is_ip_literal(also)) {
    host.addresses.push_back(also);
  }
  for (auto& each : os::interface_addresses()) {
    if (!is_loopback(each.address) && host.addresses.size() < kMaxAddresses) {
      host.addresses.push_back(std::move(each.address));
    }
  }
  return host;
}

std::string outer_address(std::string const& given) {
  auto const here = is_ip_literal(given) ? os::is_local_address(given) : Result<bool>(true);
  return here && !*here ? given : "";
}

Owners HostOwners::answer(WhoseCalls const& asked) {
  if (!sockets_) {
    sockets_.emplace(os::SocketOwners::open());
  }
  std::vector<TcpEnds> connections;
  std::transform(asked.calls.begin(), asked.calls.end(), std::back_inserter(connections),
                 [](store::CallerQuestion const& call) { return call.ends; });
  bool const tells = sockets_->has_value();
  auto const seen = tells ? (*sockets_)->find(connections) : std::vector<std::optional<SeenSocket>>{};
  Owners answer{asked.number, {}};
  for (std::size_t i = 0; i < asked.calls.size(); ++i) {
    answer.owners.push_back(
        {asked.calls[i].id, tells ? store::judge(connections[i], seen[i], (*sockets_)->own())
                                  : store::Owner{store::Owner::Kind::unknown, 0, sockets_->error().context}});
  }
  return answer;
}

}  // namespace cxxrun::rendezvous
