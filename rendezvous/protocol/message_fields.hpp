// The fields of every message, once for both directions: `field` is the Reader of messages_read.cpp or the Writer of
// messages_write.cpp. Private to the two.
//
//   field(name, value)               has to be there; an optional value is left out when there is none
//   field.if_known(name, value)      the same, but an unknown name of an enumeration is read as the default
//   field.when(written, name, text)  written when `written` says so; may be missing when read
//   field.list(name, values, most)   longer ones are refused, and cut when written
//   field.has(name, optional)        whether it is there; its own fields follow
//   field.knows(version)             whether this version's fields follow
//   field.require(holds, name)       refuses what was read, by this name
//
// A reader complains of the first that is wrong. On the wire the keys of an object are sorted; a beat is an array, of
// its fields in this order.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "rendezvous/protocol/messages.hpp"

namespace cxxrun::rendezvous {

using Json = nlohmann::json;

// Arrays longer than this are not ours.
inline constexpr std::size_t kMaxItems = 65536;
// Longer waits than three years are not meant; the bound keeps sums with a time point from overflowing.
inline constexpr std::int64_t kMaxWaitMs = 100'000'000'000;
// What both hellos begin with.
inline constexpr char const* kMagic = "cxxrun";

/// Which message it is, among those of its direction.
template <class Message>
struct Type {
  char const* name;
};
inline constexpr std::tuple kTypes(Type<Join>{"join"}, Type<Ack>{"ack"}, Type<WorkerFailed>{"worker_failed"},
                                   Type<Succeeded>{"succeeded"}, Type<Stopped>{"stopped"}, Type<Leaving>{"leaving"},
                                   Type<Unfit>{"unfit"}, Type<FollowerInfo>{"follower_info"}, Type<Vote>{"vote"},
                                   Type<Accepted>{"accepted"}, Type<Gone>{"gone"}, Type<Progress>{"progress"},
                                   Type<Prepare>{"generation"}, Type<Start>{"start"}, Type<Stop>{"stop"},
                                   Type<Finished>{"finished"}, Type<Refused>{"refused"}, Type<VoteRequest>{"vote?"},
                                   Type<Propose>{"propose"}, Type<Decided>{"decided"}, Type<Dropped>{"dropped"},
                                   Type<Kill>{"kill"});

template <class T>
concept Enumeration = std::is_enum_v<T>;
/// The names of its values, in their order.
template <Enumeration T>
inline constexpr auto kNames = nullptr;
template <>
inline constexpr std::array kNames<StopKind>{"failure", "resize", "user"};
template <>
inline constexpr std::array kNames<ExitStatus::Kind>{"exited", "signalled", "not_started"};
template <>
inline constexpr std::array kNames<HelloReply::Why>{"accepted", "other_job", "other_version", "relayed"};
template <>
inline constexpr std::array kNames<Hello::Asks>{"meet", "open", "reopen", "enter", "follow"};
template <>
inline constexpr std::array kNames<Hello::Purpose>{"agent", "beat", "death_notice"};
template <>
inline constexpr std::array kNames<Tie>{"rank", "fence", "none"};

/// A `Message` to read into, or a constant one to write.
template <class T, class Message>
concept Of = std::same_as<std::remove_const_t<T>, Message>;

// ---- parts of messages --------------------------------------------------------------------------

void fields(auto& field, Of<NodeInfo> auto& node) {
  field("node_index", node.node_index);
  field("incarnation", node.incarnation);
  field("host", node.host);
  field("slots", node.slots);
  field("role", node.role);
  field("coordinates", node.coordinates);
  field("announce", node.announce);
  field("standby_port", node.standby_port);
  field.require(node.slots != 0 && node.slots <= kMaxWorkers, "slots");
}
void fields(auto& field, Of<Terms> auto& terms) {
  field("min_nodes", terms.min_nodes);
  field("max_nodes", terms.max_nodes);
  field("expected_nodes", terms.expected_nodes);
  field("max_restarts", terms.max_restarts);
  field("join_window_ms", terms.join_window);
  field("rejoin_window_ms", terms.rejoin_window);
  field("join_timeout_ms", terms.join_timeout);
  field("ack_timeout_ms", terms.ack_timeout);
  field("heartbeat_timeout_ms", terms.heartbeat_timeout);
  field("stop_timeout_ms", terms.stop_timeout);
  field("agent_store", terms.agent_store);
  field("master_port", terms.master_port);
  field("scale_out_now", terms.scale_out_now);
  field("restart_window_ms", terms.restart_window);
  field("hang_timeout_ms", terms.hang_timeout);
  field("tie", terms.tie);
  field.require(terms.min_nodes != 0 && terms.min_nodes <= terms.max_nodes && terms.max_nodes <= kMaxNodes,
                "max_nodes");
  auto const expected = terms.expected_nodes.value_or(1);
  field.require(expected != 0 && expected <= kMaxNodes, "expected_nodes");
}
void fields(auto& field, Of<Decree> auto& decree) {
  field("after", decree.after);
  field("number", decree.number);
  field("size", decree.size);
  field("coordinator", decree.coordinator);
  field("restarts", decree.restarts);
  field("members", decree.members);
  field("tie", decree.tie);
  field.require(decree.size <= kMaxNodes, "size");
}
void fields(auto& field, Of<Successor> auto& successor) {
  field("rank", successor.rank);
  field("host", successor.host);
  field("address", successor.address);
  field("port", successor.port);
}
void fields(auto& field, Of<Generation> auto& g) {
  field("number", g.number);
  field("restarts", g.restarts);
  field("max_restarts", g.max_restarts);
  field("group_rank", g.group_rank);
  field("group_size", g.group_size);
  field("rank_base", g.rank_base);
  field("local_size", g.local_size);
  field("world_size", g.world_size);
  field("role_base", g.role_base);
  field("role_size", g.role_size);
  field("master_addr", g.master_addr);
  field("master_port", g.master_port);
  field("store_port", g.store_port);
  field("survives", g.survives);
  field("coordinator", g.coordinator);
  field("decree", g.decree);
  field.list("successors", g.successors, kMaxSuccessors);
  field.when(true, "hosts", g.hosts);
  field.when(true, "local_sizes", g.local_sizes);
  // Each difference is taken only where it cannot wrap around.
  auto const within = [&](std::uint32_t base, std::uint32_t all) {
    return base < all && g.local_size <= all - base && all <= kMaxNodes * kMaxWorkers;
  };
  field.require(g.group_rank < g.group_size && g.group_size <= kMaxNodes, "group_rank");
  field.require(g.local_size != 0 && g.local_size <= kMaxWorkers, "local_size");
  field.require(within(g.rank_base, g.world_size), "rank_base");
  field.require(within(g.role_base, g.role_size) && g.role_size <= g.world_size, "role_base");
  field.require(g.hosts.size() <= kMaxHostsText, "hosts");
  field.require(g.local_sizes.size() <= kMaxSizesText, "local_sizes");
}
void fields(auto& field, Of<WorkerExit> auto& exit) {
  field("rank", exit.rank);
  field("local_rank", exit.local_rank);
  field("pid", exit.pid);
  field("end", exit.status.kind);
  field("value", exit.status.value);
  field("core", exit.status.core_dumped);
  field("ours", exit.ours);
  field("wall_ms", exit.wall_ms);
  field.when(!exit.hung.empty(), "hung", exit.hung);
  field.when(!exit.status.ok(), "stderr", exit.stderr_tail);
  field.when(!exit.status.ok(), "error_file", exit.error_file);
}
void fields(auto& field, Of<Standstill> auto& worker) {
  field("rank", worker.rank);
  field("entered", worker.entered);
  field("done", worker.done);
  field("what", worker.what);
  field("count", worker.count);
  field("still_ms", worker.still);
  field("halted", worker.halted);
}

// ---- the handshake ------------------------------------------------------------------------------

void fields(auto& field, Of<Hello> auto& hello) {
  std::string magic = kMagic;
  field("hello", magic);
  field("version", hello.version);
  field.require(magic == kMagic, "hello");
  if (field.knows(hello.version)) {  // else the rest may differ; the caller refuses by version
    field("run_id", hello.run_id);
    field("nonce", hello.nonce);
    field("purpose", hello.purpose);
    field("asks", hello.asks);
    field.when(!hello.from.empty(), "from", hello.from);
    field.when(!hello.local_addr.empty(), "local_addr", hello.local_addr);
  }
}
void fields(auto& field, Of<HelloReply> auto& reply) {
  std::string magic = kMagic;
  field("hello", magic);
  field("version", reply.version);
  field("coordinator", reply.coordinator);
  if (field.knows(reply.version)) {
    field("run_id", reply.run_id);
    field("heartbeat_timeout_ms", reply.heartbeat_timeout);
  }
  field("answer", reply.why);
  field("refused", reply.refused);
}

// ---- agent to coordinator -----------------------------------------------------------------------

void fields(auto& field, Of<Join> auto& join) {
  field("node", join.node);
  field("terms", join.terms);
}
void fields(auto& field, Of<Ack> auto& ack) {
  field("generation", ack.number);
  field("echo", ack.echo);
  field("sent", ack.sent);
}
void fields(auto& field, Of<FollowerInfo> auto& follower_info) {
  field("node", follower_info.node);
  field("decided", follower_info.decided);
  field("rank", follower_info.rank);
  field("prepared", follower_info.prepared);
  field("prepared_rank", follower_info.prepared_rank);
  field("seen", follower_info.seen);
  field("workers", follower_info.workers);
}
void fields(auto& field, Of<Vote> auto& vote) {
  field("after", vote.after);
  field("ballot", vote.ballot);
  field("promised", vote.promised);
  field("silent_for_ms", vote.silent_for);
  if (field.has("accepted_decree", vote.accepted)) {
    field("accepted_ballot", vote.accepted->ballot);
    field("accepted_decree", vote.accepted->decree);
  }
}
void fields(auto& field, Of<Accepted> auto& accepted) {
  field("after", accepted.after);
  field("ballot", accepted.ballot);
  field("promised", accepted.promised);
}
void fields(auto& field, Of<Gone> auto& gone) {
  field("generation", gone.number);
  field("group_rank", gone.group_rank);
}
void fields(auto& field, Of<WorkerFailed> auto& failed) {
  field("generation", failed.number);
  field("exit", failed.exit);
}
void fields(auto& field, Of<Succeeded> auto& succeeded) {
  field("generation", succeeded.number);
}
void fields(auto& field, Of<Stopped> auto& stopped) {
  field("generation", stopped.number);
  field.list("exits", stopped.exits, kMaxItems);
  field.list("unkillable", stopped.unkillable, kMaxItems);
}
void fields(auto& field, Of<Leaving> auto& leaving) {
  field("signal", leaving.signal);
}
void fields(auto& field, Of<Unfit> auto& unfit) {
  field("generation", unfit.number);
  field("why", unfit.why);
}
void fields(auto& field, Of<Progress> auto& progress) {
  field("generation", progress.number);
  field.list("workers", progress.workers, kMaxProgress);
}

// ---- coordinator to agent -----------------------------------------------------------------------

void fields(auto& field, Of<Prepare> auto& prepare) {
  field("generation", prepare.generation);
  field("sent", prepare.sent);
}
void fields(auto& field, Of<Start> auto& start) {
  field("generation", start.number);
  field("echo", start.echo);
  field("left_ms", start.left);
}
void fields(auto& field, Of<VoteRequest> auto& request) {
  field("after", request.after);
  field("ballot", request.ballot);
}
void fields(auto& field, Of<Propose> auto& propose) {
  field("ballot", propose.ballot);
  field("decree", propose.decree);
}
void fields(auto& field, Of<Decided> auto& decided) {
  field("decree", decided.decree);
  field.list("successors", decided.successors, kMaxSuccessors);
  field("leads", decided.leads);
}
void fields(auto& field, Of<Dropped> auto& dropped) {
  field("generation", dropped.number);
  field("why", dropped.why);
}
void fields(auto& field, Of<Stop> auto& stop) {
  field("generation", stop.number);
  field.if_known("kind", stop.kind);
  field("why", stop.why);
}
void fields(auto& field, Of<Kill> auto& kill) {
  field("generation", kill.number);
  field("rank", kill.rank);
  field("entered", kill.entered);
  field("why", kill.why);
}
void fields(auto& field, Of<Finished> auto& finished) {
  field("exit_code", finished.exit_code);
  field("line", finished.line);
}
void fields(auto& field, Of<Refused> auto& refused) {
  field("exit_code", refused.exit_code);
  field("why", refused.why);
}

// ---- heartbeats ---------------------------------------------------------------------------------

void fields(auto& field, Of<Beat> auto& beat) {
  field("sent", beat.sent);
  field("echo", beat.echo);
  field("generation", beat.number);
}
void fields(auto& field, Of<BeatAck> auto& ack) {
  field("echo", ack.echo);
  field("sent", ack.sent);
  field("left_ms", ack.left);
  field("generation", ack.number);
}

}  // namespace cxxrun::rendezvous
