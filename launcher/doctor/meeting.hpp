// Which nodes meet for --doctor, and where: those of a Slurm step, or those that flags describe. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/options/options.hpp"
#include "launcher/place/slurm_env.hpp"

namespace cxxrun::launcher::doctor {

struct Meeting {
  std::string id;                    ///< the same on all nodes, and of this job alone
  std::string first;                 ///< the first node, as the others call it
  std::vector<std::uint16_t> ports;  ///< the first one that is free there
  std::vector<std::string> names;    ///< of all nodes, in their order; none where flags do not tell
  std::uint32_t index = 0;           ///< of this node
  std::uint32_t nodes = 1;
  std::string local_addr = {};  ///< --local-addr
  bool by_address = false;      ///< the first node is given by its address: nobody needs to know names
  bool operator==(Meeting const&) const = default;
};

/// Nothing for a node alone. Errc::usage with what to add, when flags say of several nodes, and not where or who.
[[nodiscard]] Result<std::optional<Meeting>> meeting_of(Options const& options, std::optional<SlurmStep> const& step);

/// Whom this node calls.
[[nodiscard]] std::vector<std::uint32_t> peers_in(Meeting const& meeting);
/// The names of the first node and of those that this one calls, as far as they are known and asked for.
[[nodiscard]] std::vector<std::string> names_to_know(Meeting const& meeting);
/// This node as the others call it: --local-addr, else Slurm's name, or on the first node the name that all have been
/// given; else, and where addresses are given, the one from which packets to the first node leave, which may be "".
[[nodiscard]] std::string name_for_others(Meeting const& meeting, std::function<std::string()> const& towards_first);

}  // namespace cxxrun::launcher::doctor
