#include "src/runtime/client/entrance.hpp"

#include <algorithm>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <thread>
#include <utility>

#include "cxxrun/failure.hpp"
#include "src/base/core/rank_name.hpp"
#include "src/base/core/variables.hpp"
#include "src/base/os/quiet_thread.hpp"
#include "src/base/worker/agent_prover.hpp"
#include "src/base/worker/segment.hpp"
#include "src/runtime/client/solo_backend.hpp"
#include "src/runtime/cpu/host_backend.hpp"
#include "src/runtime/cpu/node/alarm.hpp"
#include "src/runtime/gpu/nccl_backend.hpp"
#include "src/runtime/gpu/settings.hpp"

namespace cxxrun::client {
namespace {

using comm::JoinRecord;

constexpr Millis kTells{50};

void check_timeout(char const* name, Millis timeout) {
  if (timeout < Millis(1)) {
    throw Failure(
        fail(Errc::usage, std::string("Options::") + name + " is " + std::to_string(timeout.count()) +
                              " ms; give at least 1 ms, or std::chrono::milliseconds::max() to wait for ever"));
  }
}

void check(std::optional<std::string> const& refusal) {
  if (refusal) {
    throw Failure(fail(Errc::usage, *refusal));
  }
}

/// This rank's number among those who meet.
int place_of(JoinRecord const& mine, Roster const& roster) {
  auto const at =
      std::find_if(roster.begin(), roster.end(), [&](JoinRecord const& each) { return each.rank == mine.rank; });
  return static_cast<int>(at - roster.begin());
}

/// The memory that this node shares, from the agent or from the node's first rank.
os::UniqueFd fetch_segment(host::HostConfig const& config, Openings const& mine, JoinRecord const& leader,
                           std::uint64_t key, TimePoint deadline) {
  auto const began = Clock::now();
  auto const give_up = [&](PeerFailure::Why why) {
    host::throw_failure({.why = why, .rank = leader.rank, .host = leader.host, .error = {}}, config.generation, began);
  };
  auto const look = [&] {
    bool const hurries = mine.are_coming && config.hurry->asked();
    bool const names = hurries && config.hurry->answer(Clock::now() - began, deadline - began);
    if (names) {
      give_up(PeerFailure::Why::timeout);
    }
    if (hurries || config.is_in_vain()) {
      host::throw_failure(host::stopped_by_launcher(), config.generation, began);
    }
  };
  auto segment = host::fetch_segment(leader.segment, key, mine.record.rank, deadline, look);
  if (segment) {
    return *std::move(segment);
  }
  bool const is_closed = segment.error().code == Errc::closed;
  // The first rank may have failed by itself, and tell so about when it closes its socket.
  for (auto const until = Clock::now() + (is_closed ? kTells : Millis(0)); Clock::now() < until;) {
    std::this_thread::sleep_for(Millis(1));
    look();
  }
  bool const is_late = segment.error().code == Errc::timeout && mine.are_coming;
  if (!leader.segment_of_agent && (is_late || is_closed)) {
    give_up(is_late ? PeerFailure::Why::timeout : PeerFailure::Why::died);
  }
  throw Failure(in_context(mine.record, segment.error()));
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

host::HostConfig host_config(JoinOptions const& options, WorkerEnv const& env, Openings const& mine,
                             Roster const& roster) {
  host::HostConfig config;
  std::vector<std::string> keys;
  for (JoinRecord const& record : roster) {
    config.names.push_back(record.rank);
    config.hosts.push_back(record.host);
    config.addresses.push_back(record.rail);
    keys.push_back(record.host_key);
  }
  config.map = comm::make_node_map(place_of(mine.record, roster), keys);
  config.generation = env.generation;
  config.nonce = roster.front().nonce;
  config.enough_cpus = enough_cpus(roster, config.map.nodes[static_cast<std::size_t>(config.map.node)]);
  config.op_timeout = mine.op_timeout;
  config.hurry = options.hurry;
  config.are_coming = mine.are_coming;
  config.look = mine.look;
  if (options.over != nullptr) {
    config.is_over = [over = options.over] { return over->raised(); };
  }
  return config;
}

/// The host backend, or NCCL with it beside.
std::unique_ptr<host::Backend> with_device(std::unique_ptr<host::Backend> host, WorkerEnv const& env,
                                           Openings const& mine, Joined const& joined, JoinOptions const& options,
                                           TimePoint deadline) {
  if (mine.selected.backend != Backend::nccl) {
    return host;
  }
  gpu::NcclConfig config;
  config.api = mine.selected.api;
  config.device = std::string(mine.selected.device.name) + " (" + mine.selected.device.uuid + ")";
  config.nccl = mine.selected.nccl;
  config.rank = joined.rank;
  config.hosts = joined.hosts;
  config.names = joined.names;
  config.generation = env.generation;
  config.op_timeout = mine.op_timeout;
  config.abort_deadline = std::min(kForever, options.abort_deadline);
  config.settings = options.nccl;
  config.hurry = options.hurry;
  return gpu::make_nccl_backend(std::move(config), std::move(host), deadline);
}

std::unique_ptr<host::Backend> connect_host(WorkerEnv const& env, host::HostConfig config, Openings& mine,
                                            Roster const& roster, TimePoint deadline) {
  std::vector<int> mates;
  for (int const rank : config.map.nodes[static_cast<std::size_t>(config.map.node)]) {
    mates.push_back(config.name_of(rank));
  }
  JoinRecord const& leader = roster[static_cast<std::size_t>(config.map.partner(config.map.node, 0))];
  std::uint64_t const key = comm::segment_key(config.nonce, leader.rank);
  os::UniqueFd segment;
  os::UniqueFd handed;
  std::optional<Handing> handing;
  if (mates.size() > 1 && (leader.rank != env.rank || leader.segment_of_agent)) {
    segment = fetch_segment(config, mine, leader, key, deadline);
  } else if (mates.size() > 1) {
    mates.erase(mates.begin());
    segment = or_throw(host::make_segment());
    handed.reset(::fcntl(segment.get(), F_DUPFD_CLOEXEC, 0));
    handing.emplace(*mine.segment, handed.get(), key, std::move(mates), deadline);
  }
  if (config.map.node_count() == 1 || !config.map.on_rail()) {
    mine.rail = {};
  }
  return host::make_host_backend(std::move(config), std::move(segment), std::move(mine.rail), left_until(deadline));
}

}  // namespace

void settle(WorkerEnv const& env, JoinOptions const& options, Openings& mine) {
  check_timeout("init_timeout", options.init_timeout);
  check_timeout("abort_deadline", options.abort_deadline);
  check_timeout("op_timeout", mine.op_timeout);
  mine.op_timeout =
      std::min(kForever, or_throw(seconds_from_environment(options.lookup, "CXXRUN_OP_TIMEOUT", mine.op_timeout)));
  check(gpu::refusal(options.nccl));
  mine.selected = or_throw(gpu::select(options.backend, env));
  check(mine.selected.backend == Backend::nccl ? gpu::refusal(options.nccl, mine.selected.nccl_settings)
                                               : std::nullopt);
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
  mine.prover = prover != nullptr ? prover : "";
  mine.rail.prover = worker::AgentProver::find(mine.prover);
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

Joined connect(WorkerEnv const& env, JoinOptions const& options, Openings& mine, Roster const& roster,
               std::shared_ptr<Family> family, TimePoint deadline) {
  bool const several = std::any_of(roster.begin(), roster.end(),
                                   [&](auto const& record) { return record.host_key != mine.record.host_key; });
  if (several && !mine.prover.empty() && !mine.record.proves) {
    throw Failure(fail(Errc::not_found,
                       "no agent of this user answers at " + mine.prover +
                           " (CXXRUN_PROVER), which is to prove this rank to those of other nodes; let the process "
                           "reach it (mount its directory into the container), or unset CXXRUN_PROVER on all ranks"));
  }
  host::HostConfig config = host_config(options, env, mine, roster);
  Joined joined{.family = std::move(family), .rank = config.map.rank, .hosts = config.hosts, .names = config.names};
  std::string const here = rank_name(env.rank, mine.record.host);
  auto const meets = mine.are_coming ? std::min(deadline, Clock::now() + mine.op_timeout) : deadline;
  auto host = roster.size() == 1 ? make_solo_backend(here, env.generation)
                                 : connect_host(env, std::move(config), mine, roster, meets);
  joined.backend = with_device(joined.family->member(std::move(host), here), env, mine, joined, options, deadline);
  return joined;
}

}  // namespace cxxrun::client
