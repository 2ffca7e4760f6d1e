#include "rendezvous/net/host_owners.hpp"

#include <algorithm>
#include <iterator>

#include "src/base/core/endpoint.hpp"
#include "src/base/core/list.hpp"
#include "src/base/os/local_address.hpp"

namespace cxxrun::rendezvous {

/// With the addresses of the loopback interface, too, unless they are loopback addresses: some hosts have there the
/// address at which others reach them.
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

Result<os::SocketOwners>& HostOwners::sockets() {
  if (!sockets_) {
    sockets_.emplace(os::SocketOwners::open());
  }
  return *sockets_;
}

Owners HostOwners::answer(WhoseCalls const& asked) {
  auto& sockets = this->sockets();
  auto const connections = list_of(asked.calls, &store::CallerQuestion::ends);
  bool const tells = sockets.has_value();
  auto const seen = tells ? sockets->find(connections) : std::vector<std::optional<SeenSocket>>{};
  Owners answer{asked.number, {}};
  for (std::size_t i = 0; i < asked.calls.size(); ++i) {
    answer.owners.push_back(
        {asked.calls[i].id, tells ? store::judge(connections[i], seen[i], sockets->own())
                                  : store::Owner{store::Owner::Kind::unknown, 0, sockets.error().context}});
  }
  return answer;
}

store::Owner HostOwners::whose(TcpEnds const& connection) {
  auto& sockets = this->sockets();
  return sockets && sockets->quick() ? store::judge(connection, sockets->find({connection}).front(), sockets->own())
                                     : store::Owner{store::Owner::Kind::unknown, 0, ""};
}

}  // namespace cxxrun::rendezvous
