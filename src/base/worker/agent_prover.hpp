// AgentProver: a rank's connection to its agent for as long as it meets the ranks of other nodes. Shell.
//
// Of its own, beside the one of AgentLink: a thread that waits there for another generation is not in the way, and a
// process that cannot register, the child of a worker's shell script, is served, too.
#pragma once

#include <memory>
#include <string>

#include "src/base/os/fd.hpp"
#include "src/base/worker/rail_prover.hpp"

namespace cxxrun::worker {

class AgentProver final : public host::RailProver {
 public:
  /// Null when `name` is "" or nobody of this user listens there. Connects with the first question.
  [[nodiscard]] static std::unique_ptr<AgentProver> find(std::string const& name);

  [[nodiscard]] wire::RailVerdict ask(wire::RailClaim const& claim, std::function<void()> const& meanwhile) override;

 private:
  explicit AgentProver(std::string name) : name_(std::move(name)) {}

  std::string name_;
  os::UniqueFd connection_;
};

}  // namespace cxxrun::worker
