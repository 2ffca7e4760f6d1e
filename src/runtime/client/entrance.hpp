// What a rank opens for others, and how a backend comes of what all have opened: the same for a world and for a group.
// Shell.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/communicator.hpp"
#include "cxxrun/worker_env.hpp"
#include "src/base/worker/segment_socket.hpp"
#include "src/runtime/client/family.hpp"
#include "src/runtime/client/interruption.hpp"
#include "src/runtime/client/local_facts.hpp"
#include "src/runtime/comm/join_record.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/common/hurry.hpp"
#include "src/runtime/cpu/rails/rail_socket.hpp"
#include "src/runtime/gpu/select.hpp"

namespace cxxrun::client {

struct Joined {
  std::shared_ptr<Family> family{};
  std::unique_ptr<host::Backend> backend{};  ///< a member of the family
  int rank = 0;
  std::vector<std::string> hosts{};  ///< by rank
  std::vector<int> names{};          ///< by rank: its rank in the whole world, which messages call it by
};

struct JoinOptions : Communicator::Options {
  Lookup lookup = worker::own_variables();  ///< what the generation's variables are
  std::shared_ptr<Interruption> over = {};  ///< raised when the generation is over; null: never
  std::shared_ptr<host::Hurry> hurry = std::make_shared<host::Hurry>();  ///< asked when others wait for this process
};

/// Those who meet, in the order of their ranks there. The rank in a record is the one in the whole world.
using Roster = std::vector<comm::JoinRecord>;

/// What this rank settles before it tells the others of itself.
struct Openings {
  comm::JoinRecord record;
  Millis op_timeout;
  gpu::Selection selected{};
  host::RailListener rail{};
  std::string prover{};  ///< CXXRUN_PROVER
  std::optional<host::SegmentSocket> segment{};
  bool are_coming = false;  ///< the others, as they have said in a call: who does not is a PeerFailure
  /// Called every millisecond while the others are awaited; throws why they will not come. May be empty.
  std::function<void()> look{};
};

/// Everything that can be wrong with this rank alone, and that the others should hear of. Throws Failure.
void settle(WorkerEnv const& env, JoinOptions const& options, Openings& mine);

/// Fetches the memory that the node shares, connects the rails and NCCL; alone it does nothing of that. Throws Failure,
/// and PeerFailure for a rank that dies on the way, or that does not come where all are_coming.
[[nodiscard]] Joined connect(WorkerEnv const& env, JoinOptions const& options, Openings& mine, Roster const& roster,
                             std::shared_ptr<Family> family, TimePoint deadline);

}  // namespace cxxrun::client
