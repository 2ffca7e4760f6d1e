// HostOwners: an agent's answers about its host: its addresses, and which user owns a socket. Shell.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/protocol/messages.hpp"
#include "src/base/os/socket_owners.hpp"

namespace cxxrun::rendezvous {

/// `also`: an address at which others see this host; ignored unless it is an IP literal.
[[nodiscard]] HostAddresses host_addresses(std::string const& also);

/// `given` if it is an IP literal that no interface of this host has, so that addresses are translated; else "".
[[nodiscard]] std::string outer_address(std::string const& given);

class HostOwners {
 public:
  [[nodiscard]] Owners answer(WhoseCalls const& asked);
  /// The owner of the caller's end of this connection, if it is on this host; unknown if that takes longer than
  /// microseconds to find out.
  [[nodiscard]] store::Owner whose(TcpEnds const& connection);

 private:
  [[nodiscard]] Result<os::SocketOwners>& sockets();

  std::optional<Result<os::SocketOwners>> sockets_;  ///< opened at the first question
};

}  // namespace cxxrun::rendezvous
