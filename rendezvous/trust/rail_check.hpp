// Checks and makes the proofs by which workers of two nodes authenticate their connections (rails). Pure.
//
// Both ends have greeted each other (src/base/wire/rail_protocol.hpp) with random bytes and the two endpoints as each
// sees them. Each worker then asks its agent. A proof covers both greetings and one side, under a key of this run: it
// says that the agent's worker has this rank in this generation, and that the other end sees its true endpoint.
#pragma once

#include <cstdint>
#include <string>

#include "cxxrun/error.hpp"
#include "rendezvous/trust/key.hpp"
#include "src/base/wire/rail_protocol.hpp"

namespace cxxrun::rendezvous {

/// The worker that asks, by the agent's own knowledge.
struct RailClaimant {
  std::uint32_t rank = 0;
  std::uint64_t generation = 0;
  std::string run_id;
  std::string local_addr;  ///< --local-addr: another address at which others see this node
};

/// Errors: refused, if the claim is about another worker, or out of turn: the called side proves itself second.
[[nodiscard]] Result<wire::RailVerdict> check_rail_claim(Key const& key, RailClaimant const& claimant,
                                                         wire::RailClaim const& claim);

}  // namespace cxxrun::rendezvous
