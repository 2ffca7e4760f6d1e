// RailWitness: what an agent answers a worker that asks about a connection to a rank of another node. Pure.
//
// Both ends of such a connection have greeted each other (src/base/wire/rail_protocol.hpp), with random bytes and with
// the two endpoints as each sees them. A proof is for both greetings and for one side of them, under a key of this run:
// it says that the agent's worker has this rank in this generation, and that the other end sees it where it is.
#pragma once

#include <cstdint>
#include <string>

#include "cxxrun/error.hpp"
#include "rendezvous/trust/key.hpp"
#include "src/base/wire/rail_proof.hpp"

namespace cxxrun::rendezvous {

/// What the agent knows of the worker that asks, whatever that says of itself.
struct RailWitness {
  std::uint32_t rank = 0;
  std::uint64_t generation = 0;
  std::string run_id;
  std::string local_addr;  ///< --local-addr: as which address others see this node, too
};

/// Errors: refused, when the claim is not that worker's to make, or not in turn: who was called proves itself second.
[[nodiscard]] Result<wire::RailVerdict> bear_witness(Key const& key, RailWitness const& witness,
                                                     wire::RailClaim const& claim);

}  // namespace cxxrun::rendezvous
