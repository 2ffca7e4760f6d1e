// Agents: finds the agents of this user on this node, and asks them. Shell. docs/use/live.md.
//
// Agents are found through the kernel alone: it knows which processes of this user are called cxxrun, and at which unix
// sockets they listen. No file or port is needed. Both sides ask the kernel who the other one is.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/worker/agent_packets.hpp"

namespace cxxrun::launcher::view {

/// A unix socket that listens for packets.
struct ListeningSocket {
  std::uint64_t inode = 0;
  std::string name;  ///< a path, or "@NAME" of an abstract one
  bool operator==(ListeningSocket const&) const = default;
};
/// Those in the text of /proc/net/unix. Pure and total.
[[nodiscard]] std::vector<ListeningSocket> listening_sockets(std::string_view table);

struct AgentSocket {
  pid_t pid = 0;
  std::string name;  ///< as of ListeningSocket
};
/// The listening sockets of all agents, in no order. An agent has several: one for questions, and others.
[[nodiscard]] std::vector<AgentSocket> find_agents();

/// Asks one question, and returns the whole answer. Blocks until `until` at most. Errors: closed (not a socket for
/// questions, or the agent has ended), permission (another user's agent), timeout, protocol (no end of the answer).
[[nodiscard]] Result<std::string> ask(AgentSocket const& agent, std::string const& question, TimePoint until);
/// The same in two steps: the connection on which the question has been asked, and the next part of the answer.
[[nodiscard]] Result<os::UniqueFd> begin_asking(AgentSocket const& agent, std::string const& question, TimePoint until);
[[nodiscard]] Result<worker::Answer> next_part(int connection, TimePoint until);

}  // namespace cxxrun::launcher::view
