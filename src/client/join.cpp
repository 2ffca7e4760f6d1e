#include "src/client/join.hpp"

#include <algorithm>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <optional>
#include <sys/eventfd.h>
#include <thread>
#include <utility>

#include "cxxrun/failure.hpp"
#include "src/client/host_store.hpp"
#include "src/client/meeting.hpp"
#include "src/client/solo_backend.hpp"
#include "src/comm/join_record.hpp"
#include "src/core/variables.hpp"
#include "src/gpu/nccl_backend.hpp"
#include "src/gpu/select.hpp"
#include "src/host/common/fault_points.hpp"
#include "src/host/host_backend.hpp"
#include "src/host/node/alarm.hpp"
#include "src/host/node/segment.hpp"
#include "src/host/node/segment_socket.hpp"
#include "src/host/rails/rail_socket.hpp"
#include "src/os/quiet_thread.hpp"
#include "src/worker/agent_prover.hpp"

namespace cxxrun::client {
namespace {

using comm::JoinRecord;
using Roster = std::vector<JoinRecord>;

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

void check_timeout(char const* name, Millis timeout) {
  if (timeout < Millis(1)) {
    throw Failure(
        fail(Errc::usage, std::string("Options::") + name + " is " + std::to_string(timeout.count()) +
                              " ms; give at least 1 ms, or std::chrono::milliseconds::max() to wait for ever"));
  }
}

Millis left_until(TimePoint deadline) {
  return std::max(Millis(1), std::chrono::ceil<Millis>(deadline - Clock::now()));
}

/// What this rank settles before it tells the others of itself.
struct Openings {
  JoinRecord record;
  Millis op_timeout;
  gpu::Selection selected{};
  host::RailListener rail{};
  std::optional<host::SegmentSocket> segment{};
};

// Everything that can be wrong with this rank alone, and that the others should hear of.
void settle(WorkerEnv const& env, JoinOptions const& options, Openings& mine) {
  check_timeout("init_timeout", options.init_timeout);
  check_timeout("abort_deadline", options.abort_deadline);
  check_timeout("op_timeout", mine.op_timeout);
  host::arm_faults(env.rank, options.lookup("CXXRUN_FAULT"));
  mine.op_timeout =
      std::min(kForever, or_throw(seconds_from_environment(options.lookup, "CXXRUN_OP_TIMEOUT", mine.op_timeout)));
  mine.selected = or_throw(gpu::select(options.backend, env));
  mine.record.backend = mine.selected.backend;
  mine.record.nccl = mine.selected.nccl;
  mine.record.device = mine.selected.device.uuid;
  mine.record.nccl_host = mine.selected.backend == Backend::nccl ? mine.selected.nccl_host : "";
  if (env.world_size == 1) {
    return;
  }
  mine.rail = host::listen_for_rails(or_throw(own_address(env, options.lookup)));
  mine.record.rail = mine.rail.address;
  char const* const prover = options.lookup(variables::kProver);
  mine.rail.prover = worker::AgentProver::find(prover != nullptr ? prover : "");
  mine.record.proves = mine.rail.prover != nullptr;
  // From within another network namespace the agent's socket cannot be reached.
  char const* const agent = options.lookup(variables::kSegment);
  constexpr int kLocalMs = 1000;
  mine.record.segment_of_agent =
      agent != nullptr && *agent != '\0' && host::connect_for_segment(agent, kLocalMs).has_value();
  if (mine.record.segment_of_agent) {
    mine.record.segment = agent;
  } else {
    mine.segment = or_throw(host::listen_for_segments());
    mine.record.segment = mine.segment->name;
  }
}

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

/// The memory that this node shares, from the agent or from the node's first rank.
os::UniqueFd fetch_segment(WorkerEnv const& env, JoinRecord const& mine, JoinRecord const& leader, std::uint64_t key,
                           TimePoint deadline) {
  auto const began = Clock::now();
  auto segment = host::fetch_segment(leader.segment, key, env.rank, deadline);
  if (!segment && segment.error().code == Errc::closed && !leader.segment_of_agent) {
    host::throw_failure({.rank = leader.rank, .host = leader.host, .error = {}}, env.generation, began);
  }
  if (!segment) {
    throw Failure(in_context(mine, segment.error()));
  }
  return *std::move(segment);
}

/// Hands the node's memory to the mates while this rank meets them in it: who does not come is named there.
class Handing {
 public:
  Handing(host::SegmentSocket const& socket, int segment, std::uint64_t key, std::vector<int> mates, TimePoint deadline)
      : stop_(::eventfd(0, EFD_CLOEXEC)) {
    thread_ = os::start_quiet_thread([this, &socket, segment, key, mates = std::move(mates), deadline] {
      static_cast<void>(host::serve_segment(socket, segment, key, mates, deadline, stop_.get()));
    });
  }
  ~Handing() {
    static_cast<void>(::eventfd_write(stop_.get(), 1));
    thread_.join();
  }
  Handing(Handing const&) = delete;
  Handing& operator=(Handing const&) = delete;

 private:
  os::UniqueFd stop_;
  std::thread thread_;
};

host::HostConfig host_config(WorkerEnv const& env, Openings const& mine, Roster const& roster) {
  host::HostConfig config;
  std::vector<std::string> keys;
  for (JoinRecord const& record : roster) {
    config.hosts.push_back(record.host);
    config.addresses.push_back(record.rail);
    keys.push_back(record.host_key);
  }
  config.map = comm::make_node_map(env.rank, keys);
  config.generation = env.generation;
  config.nonce = roster.front().nonce;
  config.enough_cpus = enough_cpus(roster, config.map.nodes[static_cast<std::size_t>(config.map.node)]);
  config.op_timeout = mine.op_timeout;
  return config;
}

/// The host backend, or NCCL with it beside.
std::unique_ptr<host::Backend> with_device(std::unique_ptr<host::Backend> host, WorkerEnv const& env,
                                           Openings const& mine, std::vector<std::string> hosts,
                                           JoinOptions const& options, TimePoint deadline) {
  if (mine.selected.backend != Backend::nccl) {
    return host;
  }
  gpu::NcclConfig config;
  config.api = mine.selected.api;
  config.device = std::string(mine.selected.device.name) + " (" + mine.selected.device.uuid + ")";
  config.nccl = mine.selected.nccl;
  config.rank = env.rank;
  config.hosts = std::move(hosts);
  config.generation = env.generation;
  config.op_timeout = mine.op_timeout;
  config.abort_deadline = std::min(kForever, options.abort_deadline);
  return gpu::make_nccl_backend(std::move(config), std::move(host), deadline);
}

Joined connect(WorkerEnv const& env, JoinOptions const& options, Openings& mine, Roster const& roster,
               TimePoint deadline) {
  host::HostConfig config = host_config(env, mine, roster);
  if (options.over != nullptr) {
    config.is_over = [over = options.over] { return over->raised(); };
  }
  Joined joined{{}, config.hosts};
  std::vector<int> mates = config.map.nodes[static_cast<std::size_t>(config.map.node)];
  JoinRecord const& leader = roster[static_cast<std::size_t>(mates.front())];
  std::uint64_t const key = comm::segment_key(config.nonce, leader.rank);
  os::UniqueFd segment;
  os::UniqueFd handed;
  std::optional<Handing> handing;
  if (mates.size() > 1 && (leader.rank != env.rank || leader.segment_of_agent)) {
    segment = fetch_segment(env, mine.record, leader, key, deadline);
  } else if (mates.size() > 1) {
    mates.erase(mates.begin());
    segment = or_throw(host::make_segment());
    handed.reset(::fcntl(segment.get(), F_DUPFD_CLOEXEC, 0));
    handing.emplace(*mine.segment, handed.get(), key, std::move(mates), deadline);
  }
  if (config.map.node_count() == 1 || !config.map.on_rail()) {
    mine.rail = {};
  }
  joined.backend =
      host::make_host_backend(std::move(config), std::move(segment), std::move(mine.rail), left_until(deadline));
  return joined;
}

}  // namespace

Joined join(WorkerEnv const& env, JoinOptions const& options) {
  Interruptible const interruptible(options.over.get());
  Millis const patience = options.init_timeout < Millis(1) ? kSayWhy : std::min(options.init_timeout, kForever);
  TimePoint const deadline = Clock::now() + patience;
  Openings mine{.record = own_record(env, options.lookup), .op_timeout = options.op_timeout};
  std::optional<Error> obstacle;
  try {
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
  if (env.world_size == 1) {
    auto solo = make_solo_backend("rank 0 on " + mine.record.host, env.generation);
    return {with_device(std::move(solo), env, mine, {mine.record.host}, options, deadline), {mine.record.host}};
  }
  MeetingConfig config;
  config.prefix = next_prefix(env);
  config.store = "store at " + env.store->host + " port " + std::to_string(env.store->port);
  config.timeout = patience;
  config.deadline = deadline;
  config.serves = env.store_unserved && env.rank == 0;
  config.fresh = env.generation > 0 || env.store_unserved;
  auto joined = connect(env, options, mine, meet(env, mine, obstacle, std::move(config)), deadline);
  joined.backend = with_device(std::move(joined.backend), env, mine, joined.hosts, options, deadline);
  return joined;
}

}  // namespace cxxrun::client
