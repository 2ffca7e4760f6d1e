// Agents of tests, for the ranks of a rail: what each has said of its rank's connections.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/trust/rail_check.hpp"
#include "src/base/worker/rail_prover.hpp"
#include "tests/rendezvous/trust/keys.hpp"
#include "tests/support/rail.hpp"

namespace cxxrun::test {

struct KeyedProver : worker::RailProver {
  rendezvous::Key key;
  rendezvous::RailClaimant witness;
  bool silent = false;
  std::function<void()> trouble = [] {};  ///< it is silent, or says no

  KeyedProver(int node, unsigned char key_byte)
      : key(key_of(key_byte)),
        witness{static_cast<std::uint32_t>(rank_of(node)), rail_config(node, {}).generation, "run", ""} {}

  wire::RailVerdict ask(wire::RailClaim const& claim, std::function<void()> const& meanwhile) override {
    while (silent) {
      trouble();
      meanwhile();
    }
    auto verdict = or_throw(check_rail_claim(key, witness, claim));
    if (verdict.what != wire::RailVerdict::What::right) {
      trouble();
    }
    return verdict;
  }
};

inline std::unique_ptr<KeyedProver> prover_of(int node, unsigned char key_byte = 1) {
  return std::make_unique<KeyedProver>(node, key_byte);
}

}  // namespace cxxrun::test
