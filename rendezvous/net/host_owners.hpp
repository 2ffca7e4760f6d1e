// HostOwners: what an agent tells the coordinator about its host: the addresses, and whose sockets are. Shell.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/protocol/messages.hpp"
#include "src/base/os/socket_owners.hpp"

namespace cxxrun::rendezvous {

/// `also`: an address as which others see this host; may be no literal, or "".
[[nodiscard]] HostAddresses host_addresses(std::string const& also);

/// `given` where others see this host as that and no interface of it has it: addresses are translated. Else "", also
/// for a name.
[[nodiscard]] std::string outer_address(std::string const& given);

class HostOwners {
 public:
  [[nodiscard]] Owners answer(WhoseCalls const& asked);
  /// Of the caller's end of this connection, when that is on this host, and costs microseconds to find out.
  [[nodiscard]] store::Owner whose(TcpEnds const& connection);

 private:
  [[nodiscard]] Result<os::SocketOwners>& sockets();

  std::optional<Result<os::SocketOwners>> sockets_;  ///< none before the first question
};

}  // namespace cxxrun::rendezvous
