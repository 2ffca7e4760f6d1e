// The fence file: who decides when exactly half of the members are on each side of a cut (--fence=DIR). Shell; blocks.
//
// One file for each decision of a run, which is linked into place and never changed: the first to link it has decided.
// The protocol, and what it may believe of a shared file system: docs/design/election.md. The result is Fenced's.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/values/decree.hpp"

namespace cxxrun::rendezvous {

/// Which decision of which run.
struct FencePlace {
  std::string dir;     ///< --fence; every node sees the same one
  std::string run_id;  ///< any text
  std::uint64_t of =
      0;  ///< digest of the members that decide: a requeued job has the run id and numbers of its first run
};

/// DIR/<run id>/after-<g>-<of>: characters of the run id that no file name should have are written as %XX.
[[nodiscard]] std::string fence_path(FencePlace const& place, std::uint64_t after);
/// Claims it for `value`; says what it holds from then on: `value`, or somebody else's.
[[nodiscard]] Fenced claim_fence(FencePlace const& place, AcceptedDecree const& value);
/// Removes all of the run: it has ended.
void remove_fences(FencePlace const& place);

}  // namespace cxxrun::rendezvous
