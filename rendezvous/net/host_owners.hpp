// HostOwners: what an agent tells the coordinator about its host: the addresses, and whose sockets are. Shell.
#pragma once

#include <optional>

#include "rendezvous/protocol/messages.hpp"
#include "src/os/socket_owners.hpp"

namespace cxxrun::rendezvous {

/// `also`: an address as which others see this host; may be no literal, or "".
[[nodiscard]] HostAddresses host_addresses(std::string const& also);

class HostOwners {
 public:
  [[nodiscard]] Owners answer(WhoseCalls const& asked);

 private:
  std::optional<Result<os::SocketOwners>> sockets_;  ///< none before the first question
};

}  // namespace cxxrun::rendezvous
