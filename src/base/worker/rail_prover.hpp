// RailProver: who tells this rank whether a connection leads to whom it seems to lead. Shell.
#pragma once

#include <functional>

#include "src/base/wire/rail_proof.hpp"

namespace cxxrun::host {

class RailProver {
 public:
  RailProver() = default;
  RailProver(RailProver const&) = delete;
  RailProver& operator=(RailProver const&) = delete;
  virtual ~RailProver() = default;

  /// Blocks, and calls `meanwhile` about every millisecond, which ends the wait by an exception. Throws Failure when
  /// there is nobody to answer, or the claim is refused.
  [[nodiscard]] virtual wire::RailVerdict ask(wire::RailClaim const& claim, std::function<void()> const& meanwhile) = 0;
};

}  // namespace cxxrun::host
