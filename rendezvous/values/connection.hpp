// A connection between an agent and a coordinator: its id, and how it ended. Values.
#pragma once

#include <cstdint>

namespace cxxrun::rendezvous {

/// One connection of one agent to a coordinator. Ids are given out in the order of arrival and never reused.
using AgentId = std::uint64_t;

enum class Ended {
  goodbye,   ///< the peer said goodbye, under seal if there is a key: its process is alive and closed on purpose
  in_order,  ///< FIN without a goodbye: the kernel closed it for a dead process, or somebody on the path cut it
  broken,    ///< reset or another error; proves nothing, since firewalls send resets too
  silent,    ///< still open, but nothing was heard for too long
};

}  // namespace cxxrun::rendezvous
