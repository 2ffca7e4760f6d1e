#include "src/runtime/client/join.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "cxxrun/failure.hpp"
#include "src/runtime/client/host_store.hpp"
#include "src/runtime/client/meeting.hpp"
#include "src/runtime/cpu/common/fault_points.hpp"

namespace cxxrun::client {
namespace {

/// The keys of one Communicator. The ordinal tells those apart that a process makes one after another: every rank
/// makes them in the same order. Several agents of one job count restarts each for itself, unless cxxrun numbers
/// generations.
std::string next_prefix(WorkerEnv const& env) {
  bool const one_count = env.generation > 0 || env.group_world_size == 1;
  std::string const run = "cxxrun/" + env.run_id + "/" + std::to_string(env.generation) + "/" +
                          (one_count ? std::to_string(env.restart_count) : "-");
  static std::mutex mutex;
  static std::map<std::string, int> made;
  std::lock_guard const lock(mutex);
  return run + "/" + std::to_string(made[run]++);
}

/// A refusal of nonsense is told to the others for so long.
constexpr Millis kSayWhy{2000};

Roster meet(WorkerEnv const& env, Openings& mine, std::optional<Error> const& obstacle, MeetingConfig config) {
  if (config.serves) {
    if (auto const hosted = host_store(*env.store); !hosted) {
      throw Failure(in_context(mine.record, hosted.error()));
    }
  }
  auto store = Store::connect(*env.store, config.timeout);
  if (!store) {
    throw Failure(obstacle ? *obstacle : in_context(mine.record, store.error()));
  }
  Meeting meeting(*std::move(store), std::move(config), mine.record);
  if (obstacle) {
    meeting.refuse(*obstacle);
  }
  return meeting.meet();
}

}  // namespace

Joined join(WorkerEnv const& env, JoinOptions const& options) {
  Interruptible const interruptible(options.over.get());
  Millis const patience = options.init_timeout < Millis(1) ? kSayWhy : std::min(options.init_timeout, kForever);
  TimePoint const deadline = Clock::now() + patience;
  Openings mine{.record = own_record(env, options.lookup), .op_timeout = options.op_timeout};
  std::optional<Error> obstacle;
  try {
    host::arm_faults(env.rank, options.lookup("CXXRUN_FAULT"));
    settle(env, options, mine);
  } catch (Failure const& failure) {
    obstacle = in_context(mine.record, failure.error());
  }
  if (!env.store && env.world_size > 1 && !obstacle) {
    obstacle = in_context(mine.record, fail(Errc::environment,
                                            "MASTER_ADDR and MASTER_PORT are not set: no store is "
                                            "named in which to meet the others"));
  }
  if (obstacle && (!env.store || env.world_size == 1)) {
    throw Failure(*obstacle);
  }
  auto family = std::make_shared<Family>();
  if (env.world_size == 1) {
    return connect(env, options, mine, {mine.record}, std::move(family), deadline);
  }
  MeetingConfig config;
  config.prefix = next_prefix(env);
  config.store = "store at " + env.store->host + " port " + std::to_string(env.store->port);
  config.timeout = patience;
  config.deadline = deadline;
  config.serves = env.store_unserved && env.rank == 0;
  config.fresh = env.generation > 0 || env.store_unserved;
  return connect(env, options, mine, meet(env, mine, obstacle, std::move(config)), std::move(family), deadline);
}

}  // namespace cxxrun::client
