// Agents: finds the agents of this user on this node, and asks them. Shell. docs/use/live.md.
//
// No file and no port tells where an agent is: the kernel knows which processes of this user are called cxxrun, and at
// which unix sockets they listen. Both sides ask the kernel who the other one is.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher::view {

/// The sockets in /proc/net/unix that listen for packets, by inode. Pure and total.
struct ListeningSocket {
  std::uint64_t inode = 0;
  std::string name;  ///< a path, or "@NAME" of an abstract one
  bool operator==(ListeningSocket const&) const = default;
};
[[nodiscard]] std::vector<ListeningSocket> listening_sockets(std::string_view table);

struct AgentSocket {
  pid_t pid = 0;
  std::string name;  ///< as above
};
/// By process, in no order: an agent has one for questions, and others.
[[nodiscard]] std::vector<AgentSocket> find_agents();

/// One question and its whole answer. Blocks until `until`. Errors: closed (it is no such socket, or has ended),
/// permission (another user's), timeout, refused (its own words).
[[nodiscard]] Result<std::string> ask(AgentSocket const& agent, std::string const& question, TimePoint until);

}  // namespace cxxrun::launcher::view
