#include "src/runtime/client/join.hpp"

#include <algorithm>
#include <cassert>
#include <fcntl.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/eventfd.h>
#include <thread>
#include <utility>
#include <vector>

#include "cxxrun/failure.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/variables.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/os/thread.hpp"
#include "src/base/worker/rail_prover.hpp"
#include "src/base/worker/segment.hpp"
#include "src/runtime/client/bootstrap.hpp"
#include "src/runtime/comm/join_record.hpp"
#include "src/runtime/cpu/common/fault_points.hpp"
#include "src/runtime/cpu/host_backend.hpp"
#include "src/runtime/cpu/node/alarm.hpp"
#include "src/runtime/cpu/rails/rail_link.hpp"
#include "src/runtime/gpu/nccl_peers.hpp"
#include "src/runtime/gpu/select.hpp"

namespace cxxrun::client {
namespace {

using comm::JoinRecord;

/// The records of the ranks that meet, in the order of their ranks there. Their field `rank` is the rank in the world.
using Roster = std::vector<comm::JoinRecord>;

/// What this rank prepares before it sends its record to the others.
struct LocalSetup {
  comm::JoinRecord record;
  Millis op_timeout;
  gpu::Selection selected{};
  host::RailListener rail{};
  std::string prover{};  ///< CXXRUN_PROVER
  std::optional<os::LocalSocket> segment{};
  bool are_coming = false;  ///< the others have promised in a call to come: one that does not is a PeerFailure
  /// Called every millisecond while waiting for the others; throws if they will not come. May be empty.
  std::function<void()> look{};
};

constexpr Millis kReportTime{50};

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

/// This rank's number among the ranks that meet.
int place_of(JoinRecord const& mine, Roster const& roster) {
  auto const at =
      std::find_if(roster.begin(), roster.end(), [&](JoinRecord const& each) { return each.rank == mine.rank; });
  assert(at != roster.end());
  return static_cast<int>(at - roster.begin());
}

/// Fetches the memory that this node shares, from the agent or from the node's first rank.
os::UniqueFd fetch_segment(host::HostConfig const& config, LocalSetup const& mine, JoinRecord const& leader,
                           std::uint64_t key, TimePoint deadline) {
  auto const began = Clock::now();
  auto const give_up = [&](PeerFailure::Why why) {
    host::throw_failure({.why = why, .rank = leader.rank, .host = leader.host, .error = {}}, config.generation, began);
  };
  auto const look = [&] {
    bool const gives_up = mine.are_coming && config.early_give_up->requested();
    bool const names = gives_up && config.early_give_up->acknowledge(Clock::now() - began, deadline - began);
    if (names) {
      give_up(PeerFailure::Why::timeout);
    }
    if (gives_up || config.is_in_vain()) {
      host::throw_failure(host::stopped_by_launcher(), config.generation, began);
    }
  };
  auto segment = worker::fetch_segment(leader.segment, key, mine.record.rank, deadline, look);
  if (segment) {
    return *std::move(segment);
  }
  bool const is_closed = segment.error().code == Errc::closed;
  // The first rank may have failed for a reason of its own, and reports it when it closes its socket.
  for (auto const until = Clock::now() + (is_closed ? kReportTime : Millis(0)); Clock::now() < until;) {
    std::this_thread::sleep_for(Millis(1));
    look();
  }
  bool const is_late = segment.error().code == Errc::timeout && mine.are_coming;
  if (!leader.segment_of_agent && (is_late || is_closed)) {
    give_up(is_late ? PeerFailure::Why::timeout : PeerFailure::Why::died);
  }
  throw Failure(in_context(mine.record, segment.error()));
}

/// Hands the node's memory to the local peers while this rank meets them in it; NodeGroup names a rank that is missing.
class SegmentHandout {
 public:
  SegmentHandout(os::LocalSocket const& socket, int segment, std::uint64_t key, std::vector<int> local_peers,
                 TimePoint deadline)
      : stop_(::eventfd(0, EFD_CLOEXEC)) {
    thread_ = os::start_quiet_thread([this, &socket, segment, key, local_peers = std::move(local_peers), deadline] {
      static_cast<void>(worker::serve_segment(socket, segment, key, local_peers, deadline, stop_.get()));
    });
  }
  ~SegmentHandout() {
    static_cast<void>(::eventfd_write(stop_.get(), 1));
    thread_.join();
  }
  SegmentHandout(SegmentHandout const&) = delete;
  SegmentHandout& operator=(SegmentHandout const&) = delete;

 private:
  os::UniqueFd stop_;
  std::thread thread_;
};

/// The parameters of the host backend, from the records of all ranks.
host::HostConfig host_config(JoinOptions const& options, WorkerEnv const& env, LocalSetup const& mine,
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
  config.early_give_up = options.early_give_up;
  config.are_coming = mine.are_coming;
  config.look = mine.look;
  if (options.over != nullptr) {
    config.is_over = [over = options.over] { return over->raised(); };
  }
  return config;
}

/// Returns the host backend, or the NCCL backend on top of it.
std::unique_ptr<host::Backend> with_device(std::unique_ptr<host::Backend> host, WorkerEnv const& env,
                                           LocalSetup const& mine, JoinResult const& joined, JoinOptions const& options,
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
  config.early_give_up = options.early_give_up;
  return gpu::make_nccl_backend(std::move(config), std::move(host), deadline);
}

/// Gets the node's memory from the agent or the node's first rank, or makes and hands it out; then connects the
/// backend.
std::unique_ptr<host::Backend> connect_host(WorkerEnv const& env, host::HostConfig config, LocalSetup& mine,
                                            Roster const& roster, TimePoint deadline) {
  std::vector<int> local_peers;
  for (int const rank : config.map.nodes[static_cast<std::size_t>(config.map.node)]) {
    local_peers.push_back(config.name_of(rank));
  }
  JoinRecord const& leader = roster[static_cast<std::size_t>(config.map.partner(config.map.node, 0))];
  std::uint64_t const key = comm::segment_key(config.nonce, leader.rank);
  os::UniqueFd segment;
  os::UniqueFd handed;
  std::optional<SegmentHandout> handout;
  if (local_peers.size() > 1 && (leader.rank != env.rank || leader.segment_of_agent)) {
    segment = fetch_segment(config, mine, leader, key, deadline);
  } else if (local_peers.size() > 1) {
    local_peers.erase(local_peers.begin());
    segment = or_throw(worker::make_segment());
    handed.reset(::fcntl(segment.get(), F_DUPFD_CLOEXEC, 0));
    handout.emplace(*mine.segment, handed.get(), key, std::move(local_peers), deadline);
  }
  if (config.map.node_count() == 1 || !config.map.on_rail()) {
    mine.rail = {};
  }
  return host::make_host_backend(std::move(config), std::move(segment), std::move(mine.rail), left_until(deadline));
}

/// Checks and opens everything that can fail on this rank alone and that the others should hear of. Throws Failure.
void set_up(WorkerEnv const& env, JoinOptions const& options, LocalSetup& mine) {
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
  // From another network namespace the agent's socket cannot be reached.
  char const* const agent = options.lookup(variables::kSegment);
  constexpr int kLocalMs = 1000;
  mine.record.segment_of_agent = agent != nullptr && *agent != '\0' && os::connect_local(agent, kLocalMs).has_value();
  if (mine.record.segment_of_agent) {
    mine.record.segment = agent;
  } else {
    mine.segment = or_throw(os::listen_local());
    mine.record.segment = mine.segment->name;
  }
}

/// Fetches the memory that the node shares and connects the rails and NCCL; in a world of one it does none of that.
/// Throws Failure, and PeerFailure for a rank that dies meanwhile or, with are_coming, does not come.
JoinResult connect(WorkerEnv const& env, JoinOptions const& options, LocalSetup& mine, Roster const& roster,
                   std::shared_ptr<GroupRegistry> registry, TimePoint deadline) {
  bool const several = std::any_of(roster.begin(), roster.end(),
                                   [&](auto const& record) { return record.host_key != mine.record.host_key; });
  if (several && !mine.prover.empty() && !mine.record.proves) {
    throw Failure(fail(Errc::not_found,
                       "no agent of this user answers at " + mine.prover +
                           " (CXXRUN_PROVER), which is to prove this rank to those of other nodes; let the process "
                           "reach it (mount its directory into the container), or unset CXXRUN_PROVER on all ranks"));
  }
  host::HostConfig config = host_config(options, env, mine, roster);
  JoinResult joined{
      .registry = std::move(registry), .rank = config.map.rank, .hosts = config.hosts, .names = config.names};
  std::string const here = rank_name(env.rank, mine.record.host);
  auto const meets = mine.are_coming ? std::min(deadline, Clock::now() + mine.op_timeout) : deadline;
  auto host = roster.size() == 1 ? host::make_solo_backend(here, env.generation)
                                 : connect_host(env, std::move(config), mine, roster, meets);
  joined.backend = with_device(joined.registry->member(std::move(host), here), env, mine, joined, options, deadline);
  return joined;
}

// ---- join: the ranks meet in the store

/// The prefix of the keys of one Communicator. Its last part counts the Communicators that a process makes one after
/// another; every rank makes them in the same order. The restart count is left out if every agent may have its own,
/// that is, with several agents and without generation numbers of cxxrun.
std::string next_prefix(WorkerEnv const& env) {
  bool const one_count = env.generation > 0 || env.group_world_size == 1;
  std::string const run = "cxxrun/" + env.run_id + "/" + std::to_string(env.generation) + "/" +
                          (one_count ? std::to_string(env.restart_count) : "-");
  static std::mutex mutex;
  static std::map<std::string, int> made;
  std::lock_guard const lock(mutex);
  return run + "/" + std::to_string(made[run]++);
}

/// With an invalid init_timeout, how long to try to tell the others of the refusal.
constexpr Millis kSayWhy{2000};

Roster meet(WorkerEnv const& env, LocalSetup& mine, std::optional<Error> const& obstacle, BootstrapConfig config) {
  if (config.serves) {
    if (auto const hosted = host_store(*env.store); !hosted) {
      throw Failure(in_context(mine.record, hosted.error()));
    }
  }
  auto store = Store::connect(*env.store, config.timeout);
  if (!store) {
    throw Failure(obstacle ? *obstacle : in_context(mine.record, store.error()));
  }
  Bootstrap bootstrap(*std::move(store), std::move(config), mine.record);
  if (obstacle) {
    bootstrap.refuse(*obstacle);
  }
  return bootstrap.meet();
}

// ---- split: the ranks exchange their records in collectives

/// What all ranks tell each other first in a split.
struct Card {
  comm::Wish wish;
  std::uint32_t able = 1;  ///< 0: an error follows in place of the record
  std::uint32_t bytes = 0;
};

void gather(SplitParent const& parent, void const* in, void* out, std::size_t bytes) {
  parent.run({.kind = comm::Kind::all_gather, .type = DType::u8, .count = bytes, .in = in, .out = out});
}

/// Gathers every rank's text, by rank.
std::vector<std::string> gather_texts(SplitParent const& parent, std::string mine, std::vector<Card> const& cards) {
  auto const longest = std::max_element(cards.begin(), cards.end(), [](auto const& a, auto const& b) {
                         return a.bytes < b.bytes;
                       })->bytes;
  mine.resize(longest);
  std::string all(cards.size() * longest, '\0');
  gather(parent, mine.data(), all.data(), longest);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    texts.push_back(all.substr(rank * longest, cards[rank].bytes));
  }
  return texts;
}

/// Returns the records of this rank's group.
Roster roster_of(SplitParent const& parent, std::vector<Card> const& cards, std::vector<std::string> const& texts) {
  std::vector<comm::Wish> wishes;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].able == 0) {
      throw Failure(comm::decode_error(texts[rank]));
    }
    wishes.push_back(cards[rank].wish);
  }
  Roster roster;
  for (int const rank : comm::members_of(wishes, parent.rank)) {
    auto record = comm::decode_record(texts[static_cast<std::size_t>(rank)]);
    if (!record) {
      throw Failure(fail(Errc::protocol, "rank " + std::to_string(rank) + " sent an invalid record"));
    }
    roster.push_back(*std::move(record));
  }
  return roster;
}

/// The other ranks see this as a call: a rank that waits in it is not to blame, and a rank missing in it is named.
JoinResult connect_group(WorkerEnv const& world, JoinOptions const& options, SplitParent const& parent,
                         LocalSetup& mine, Roster const& roster) {
  parent.recorder.waits();
  try {
    auto joined = connect(world, options, mine, roster, parent.registry,
                          Clock::now() + std::clamp(options.init_timeout, Millis(1), kForever));
    parent.recorder.goes_on();
    return joined;
  } catch (PeerFailure const& failure) {
    parent.recorder.lost(failure);
    parent.registry->end(std::current_exception(), rank_name(world.rank, mine.record.host));
    throw;
  } catch (...) {
    parent.registry->end(std::current_exception(), rank_name(world.rank, mine.record.host));
    throw;
  }
}

}  // namespace

JoinResult join(WorkerEnv const& env, JoinOptions const& options) {
  Interruptible const interruptible(options.over.get());
  Millis const patience = options.init_timeout < Millis(1) ? kSayWhy : std::min(options.init_timeout, kForever);
  TimePoint const deadline = Clock::now() + patience;
  LocalSetup mine{.record = own_record(env, options.lookup), .op_timeout = options.op_timeout};
  std::optional<Error> obstacle;
  try {
    host::arm_faults(env.rank, options.lookup("CXXRUN_FAULT"));
    set_up(env, options, mine);
  } catch (Failure const& failure) {
    obstacle = in_context(mine.record, failure.error());
  }
  if (!env.store && env.world_size > 1 && !obstacle) {
    obstacle = in_context(mine.record, fail(Errc::environment,
                                            "MASTER_ADDR and MASTER_PORT are not set: they name the store in which the "
                                            "ranks meet"));
  }
  if (obstacle && (!env.store || env.world_size == 1)) {
    throw Failure(*obstacle);
  }
  auto registry = std::make_shared<GroupRegistry>();
  if (env.world_size == 1) {
    return connect(env, options, mine, {mine.record}, std::move(registry), deadline);
  }
  BootstrapConfig config;
  config.prefix = next_prefix(env);
  config.store = "store at " + env.store->host + " port " + std::to_string(env.store->port);
  config.timeout = patience;
  config.deadline = deadline;
  config.serves = env.store_unserved && env.rank == 0;
  config.fresh = env.generation > 0 || env.store_unserved;
  return connect(env, options, mine, meet(env, mine, obstacle, std::move(config)), std::move(registry), deadline);
}

JoinResult split(WorkerEnv const& world, JoinOptions const& options, SplitParent const& parent, comm::Wish wish) {
  parent.run({.kind = comm::Kind::split});  // names a rank that calls something else
  LocalSetup mine{.record = own_record(world, options.lookup), .op_timeout = options.op_timeout};
  std::string text;
  Card card{.wish = wish};
  try {
    set_up(world, options, mine);
    // The launcher only compares calls of the whole Communicator and cannot tell who is late here; the waiting ranks
    // can.
    auto const hang_timeout = seconds_from_environment(options.lookup, variables::kHangTimeout, mine.op_timeout);
    mine.op_timeout = std::min(mine.op_timeout, or_throw(hang_timeout));
    text = comm::encode(mine.record);
  } catch (Failure const& failure) {
    card.able = 0;
    text = comm::encode(in_context(mine.record, failure.error()));
  }
  card.bytes = static_cast<std::uint32_t>(text.size());
  std::vector<Card> cards(static_cast<std::size_t>(parent.size));
  gather(parent, &card, cards.data(), sizeof card);
  Roster const roster = roster_of(parent, cards, gather_texts(parent, std::move(text), cards));
  if (roster.empty()) {
    return {};
  }
  mine.are_coming = true;
  mine.look =
      parent.throw_trouble;  // a rank that cannot do its part tells the whole Communicator, for there is no group yet
  return connect_group(world, options, parent, mine, roster);
}

}  // namespace cxxrun::client
