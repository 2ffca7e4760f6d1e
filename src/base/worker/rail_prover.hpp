// RailProver: asks whether a rank's connection to another node leads to the rank that it claims to be. Shell.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/base/os/fd.hpp"
#include "src/base/wire/rail_protocol.hpp"

namespace cxxrun::worker {

class RailProver {
 public:
  RailProver() = default;
  RailProver(RailProver const&) = delete;
  RailProver& operator=(RailProver const&) = delete;
  virtual ~RailProver() = default;

  /// Blocks until the answer. Calls `meanwhile` about every millisecond, which may end the wait by throwing. Throws
  /// Failure when there is nobody to ask, or the claim is refused.
  [[nodiscard]] virtual wire::RailVerdict ask(wire::RailClaim const& claim, std::function<void()> const& meanwhile) = 0;
};

/// Asks this rank's agent, over a connection apart from AgentLink's: a thread that waits there for the next generation
/// does not delay the proof, and a process that cannot register (a child of a worker's shell script) gets one, too.
class AgentProver final : public RailProver {
 public:
  /// Null when `name` is "" or no process of this user listens there. The connection is made by the first ask().
  [[nodiscard]] static std::unique_ptr<AgentProver> find(std::string const& name);

  [[nodiscard]] wire::RailVerdict ask(wire::RailClaim const& claim, std::function<void()> const& meanwhile) override;

 private:
  explicit AgentProver(std::string name) : name_(std::move(name)) {}

  std::string name_;
  os::UniqueFd connection_;
};

}  // namespace cxxrun::worker
