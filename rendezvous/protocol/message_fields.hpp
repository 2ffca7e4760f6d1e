// The fields of every message, once for both directions. `field` is the Reader of messages_read.cpp or the Writer of
// messages_write.cpp; only these two include this header.
//
//   field(name, value)               required; an optional value is left out if it is empty
//   field.if_known(name, value)      the same, but an unknown name of an enumeration is read as the default
//   field.when(written, name, text)  written if `written` holds; may be missing when read
//   field.list(name, values, most)   refused when read if longer than `most`, and cut to `most` when written
//   field.has(name, optional)        whether the value is there; then its own fields follow
//   field.knows(version)             whether the fields of this version follow
//   field.require(holds, name)       refuses what was read, naming `name`
//
// A reader reports the first error only. On the wire the keys of an object are sorted; a beat is an array of its fields
// in the order below.
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

// Longer arrays are refused.
inline constexpr std::size_t kMaxItems = 65536;
// Three years. Longer waits are refused, so that adding one to a time point cannot overflow.
inline constexpr std::int64_t kMaxWaitMs = 100'000'000'000;

template <class T>
concept Enumeration = std::is_enum_v<T>;
/// Names of the values of an enumeration, in order.
template <Enumeration T>
inline constexpr auto kNames = nullptr;
template <>
inline constexpr std::array kNames<StopKind>{"failure", "resize", "user", "drain"};
template <>
inline constexpr std::array kNames<ExitStatus::Kind>{"exited", "signalled", "not_started"};
template <>
inline constexpr std::array kNames<Role>{"culprit", "waited", "lost_peer", "told_to_end"};
template <>
inline constexpr std::array kNames<PeerFailure::Why>{"died", "left", "timeout", "lost", "stopped"};
template <>
inline constexpr std::array kNames<HelloReply::Why>{"accepted", "other_job", "other_version", "relayed"};
template <>
inline constexpr std::array kNames<Hello::Asks>{"meet", "open", "reopen", "enter", "follow"};
template <>
inline constexpr std::array kNames<Hello::Purpose>{"agent", "beat", "death_notice"};
template <>
inline constexpr std::array kNames<store::StoreAccess>{"user", "hosts", "any"};
template <>
inline constexpr std::array kNames<store::Owner::Kind>{"ours", "other", "none", "unknown"};
template <>
inline constexpr std::array kNames<Tie>{"rank", "fence", "none"};

/// A `Message` to read into, or a const one to write.
template <class T, class Message>
concept Of = std::same_as<std::remove_const_t<T>, Message>;

// Both hellos begin with it.
inline constexpr char const* kMagic = "cxxrun";

/// The name of a message, unique within its direction.
template <class Message>
struct Type {
  char const* name;
};
inline constexpr std::tuple kTypes(Type<Join>{"join"}, Type<Ack>{"ack"}, Type<WorkerFailed>{"worker_failed"},
                                   Type<Succeeded>{"succeeded"}, Type<Stopped>{"stopped"}, Type<Leaving>{"leaving"},
                                   Type<Unfit>{"unfit"}, Type<FollowerInfo>{"follower_info"}, Type<Vote>{"vote"},
                                   Type<Accepted>{"accepted"}, Type<Gone>{"gone"}, Type<Progress>{"progress"},
                                   Type<Complete>{"complete"}, Type<LeftOut>{"left_out"}, Type<Prepare>{"generation"},
                                   Type<Start>{"start"}, Type<Stop>{"stop"}, Type<Finished>{"finished"},
                                   Type<Refused>{"refused"}, Type<VoteRequest>{"vote?"}, Type<Propose>{"propose"},
                                   Type<Decided>{"decided"}, Type<Dropped>{"dropped"}, Type<Kill>{"kill"},
                                   Type<HostAddresses>{"addresses"}, Type<WhoseCalls>{"whose_calls"},
                                   Type<Owners>{"owners"}, Type<NodePulse>{"pulse"}, Type<Ask>{"ask"},
                                   Type<Told>{"told"}, Type<Pace>{"pace"});

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
  field("max_restarts_given", terms.max_restarts_given);
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
  field("restart_delay_ms", terms.restart_delay);
  field("hang_timeout_ms", terms.hang_timeout);
  field("store_access", terms.store_access);
  field("tie", terms.tie);
  field("fence_dir", terms.fence_dir);
  field.require(terms.min_nodes != 0 && terms.min_nodes <= terms.max_nodes && terms.max_nodes <= kMaxNodes,
                "max_nodes");
  auto const expected = terms.expected_nodes.value_or(1);
  field.require(expected != 0 && expected <= kMaxNodes, "expected_nodes");
}
void fields(auto& field, Of<TimeLeft> auto& time) {
  field("in_ms", time.left);
  field("limit", time.limit);
}
void fields(auto& field, Of<StepsAgo> auto& steps) {
  field("first_step_ms", steps.first);
  field("last_ms", steps.last);
  field("checkpoints_ms", steps.checkpoints);
}
void fields(auto& field, Of<Account> auto& account) {
  for (auto const spent : kAllSpent) {
    field(name_of(spent), account[spent]);
  }
}
void fields(auto& field, Of<PastGeneration> auto& past) {
  field("number", past.number);
  field("nodes", past.nodes);
  field("ranks", past.ranks);
  field("failed", past.failed);
  field("began", past.began);
  field("ran", past.ran);
  field("lost", past.lost);
  field("why", past.why);
  field.require(past.why.size() <= kWhyOfDecree, "why");
}
void fields(auto& field, Of<History> auto& history) {
  field("account", history.account);
  field.list("past", history.past, kPastOfDecree);
  field("left_out", history.left_out);
  field("ranks", history.ranks);
  field("steps", history.steps);
}
void fields(auto& field, Of<NodeFault> auto& fault) {
  field("key", fault.key);
  field("host", fault.host);
  field("what", fault.what);
  field("look", fault.look);
  auto const fits = [](std::string const& text) { return text.size() <= kWhyOfDecree; };
  field.require(!fault.key.empty() && fits(fault.key) && fits(fault.host) && fits(fault.what), "what");
}
void fields(auto& field, Of<Decree> auto& decree) {
  field("after", decree.after);
  field("number", decree.number);
  field("size", decree.size);
  field("coordinator", decree.coordinator);
  field("restarts", decree.restarts);
  field("failures", decree.streak.failures);
  field("alike", decree.streak.alike);
  field("look", decree.streak.look);
  field("history", decree.history);
  field.list("faults", decree.faults, kFaultsOfDecree);
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
  // Subtracts only after comparing, so that nothing wraps around.
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
void fields(auto& field, Of<worker::Loss> auto& lost) {
  field("rank", lost.rank);
  field("why", lost.why);
}
void fields(auto& field, Of<Named> auto& named) {
  field("rank", named.rank);
  field("lost", named.lost);
}
void fields(auto& field, Of<WorkerExit> auto& exit) {
  field("rank", exit.rank);
  field("local_rank", exit.local_rank);
  field("pid", exit.pid);
  field("end", exit.status.kind);
  field("value", exit.status.value);
  field("core", exit.status.core_dumped);
  field("ours", exit.ours);
  field("of_job", exit.of_job);
  field("wall_ms", exit.wall_ms);
  field.when(!exit.hung.empty(), "hung", exit.hung);
  field.when(!exit.cause.empty(), "cause", exit.cause);
  field.when(!exit.advice.empty(), "advice", exit.advice);
  field.when(!exit.status.ok(), "stderr", exit.stderr_tail);
  field.when(!exit.status.ok(), "error_file", exit.error_file);
  field.when(!exit.told.empty(), "told", exit.told);
  field.if_known("role", exit.role);
  field("lost", exit.lost);
  field.when(!exit.log.empty(), "log", exit.log);
}
void fields(auto& field, Of<worker::GroupCount> auto& group) {
  field("id", group.id);
  field("begun", group.begun);
  field("size", group.size);
}
void fields(auto& field, Of<Standstill> auto& worker) {
  field("rank", worker.rank);
  field("entered", worker.entered);
  field("done", worker.done);
  field("what", worker.what);
  field("count", worker.count);
  field("still_ms", worker.still);
  field("halted", worker.halted);
  field("idle", worker.idle);
  field.list("groups", worker.groups, worker::kGroups);
}
void fields(auto& field, Of<store::CallerQuestion> auto& call) {
  field("id", call.id);
  field("from", call.ends.caller);
  field("to", call.ends.called);
}
void fields(auto& field, Of<store::OwnerFound> auto& found) {
  field("id", found.id);
  field("owner", found.owner.kind);
  field("uid", found.owner.uid);
  field.when(!found.owner.why.empty(), "why", found.owner.why);
}

// ---- the handshake ------------------------------------------------------------------------------

void fields(auto& field, Of<Hello> auto& hello) {
  std::string magic = kMagic;
  field("hello", magic);
  field("version", hello.version);
  field.require(magic == kMagic, "hello");
  if (field.knows(hello.version)) {  // else the other fields may differ; the hello is refused for its version
    field("run_id", hello.run_id);
    field("nonce", hello.nonce);
    field("purpose", hello.purpose);
    field("asks", hello.asks);
    field.when(!hello.ends.caller.empty(), "from", hello.ends.caller);
    field.when(!hello.ends.called.empty(), "to", hello.ends.called);
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
    field("terms", reply.terms);
  }
  field("answer", reply.why);
  field("refused", reply.refused);
  field.when(!reply.seen.caller.empty(), "from", reply.seen.caller);
  field.when(!reply.seen.called.empty(), "to", reply.seen.called);
}

// ---- agent to coordinator -----------------------------------------------------------------------

void fields(auto& field, Of<Join> auto& join) {
  field("node", join.node);
  field("terms", join.terms);
  field("job_end", join.job_end);
}
void fields(auto& field, Of<Ack> auto& ack) {
  field("generation", ack.number);
  field("echo", ack.echo);
  field("sent", ack.sent);
}
void fields(auto& field, Of<DeadSeat> auto& dead) {
  field("rank", dead.rank);
  field("known_for_ms", dead.known_for);
}
void fields(auto& field, Of<FollowerInfo> auto& follower_info) {
  field("node", follower_info.node);
  field("decided", follower_info.decided);
  field("rank", follower_info.rank);
  field("prepared", follower_info.prepared);
  field("prepared_rank", follower_info.prepared_rank);
  field("prepared_members", follower_info.prepared_members);
  field("seen", follower_info.seen);
  field("workers", follower_info.workers);
  field("begun_for_ms", follower_info.begun_for);
  field("steps", follower_info.steps);
  field.list("dead", follower_info.dead, kMaxSuccessors);
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
  field("steps", succeeded.steps);
}
void fields(auto& field, Of<Stopped> auto& stopped) {
  field("generation", stopped.number);
  field.list("exits", stopped.exits, kMaxItems);
  field.list("unkillable", stopped.unkillable, kMaxItems);
  field("steps", stopped.steps);
  field("lacks", stopped.lacks);
}
void fields(auto& field, Of<Complete> auto& complete) {
  field("generation", complete.number);
}
void fields(auto& field, Of<Leaving> auto& leaving) {
  field("signal", leaving.signal);
  field.when(!leaving.from.empty(), "from", leaving.from);
}
void fields(auto& field, Of<Unfit> auto& unfit) {
  field("generation", unfit.number);
  field("why", unfit.why);
}
void fields(auto& field, Of<Progress> auto& progress) {
  field("generation", progress.number);
  field.list("workers", progress.workers, kMaxProgress);
  field.list("named", progress.named, kMaxProgress);
  field.list("left", progress.left, kMaxWorkers);
}

// ---- coordinator to agent -----------------------------------------------------------------------

void fields(auto& field, Of<Prepare> auto& prepare) {
  field("generation", prepare.generation);
  field("sent", prepare.sent);
  field("job_end", prepare.job_end);
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
  field("named", kill.named);
  field("why", kill.why);
}
void fields(auto& field, Of<LeftOut> auto& left_out) {
  field("generation", left_out.number);
}
void fields(auto& field, Of<Finished> auto& finished) {
  field("exit_code", finished.exit_code);
  field("line", finished.line);
  field("first_failure", finished.first_failure);
}
void fields(auto& field, Of<Refused> auto& refused) {
  field("exit_code", refused.exit_code);
  field("why", refused.why);
}

// ---- beside membership --------------------------------------------------------------------------

void fields(auto& field, Of<HostAddresses> auto& host) {
  field.list("addresses", host.addresses, kMaxAddresses);
}
void fields(auto& field, Of<WhoseCalls> auto& whose) {
  field("generation", whose.number);
  field.list("calls", whose.calls, kMaxCalls);
}
void fields(auto& field, Of<Owners> auto& owners) {
  field("generation", owners.number);
  field.list("owners", owners.owners, kMaxCalls);
}

void fields(auto& field, Of<NodePulse> auto& pulse) {
  field("generation", pulse.number);
  field("rank_base", pulse.rank_base);
  field("width", pulse.width);
  field.list("figures", pulse.figures, kMaxFigures);
  fields(field, pulse.steps);
  field("saved_ms", pulse.saved);
  field.require(pulse.width > 0, "width");
}
void fields(auto& field, Of<Ask> auto& ask) {
  field("id", ask.id);
  field("text", ask.text);
  field.require(ask.text.size() <= kMaxAsk, "text");
}
void fields(auto& field, Of<Told> auto& told) {
  field("id", told.id);
  field("text", told.text);
  field("more", told.more);
  field.require(told.text.size() <= kMaxTold, "text");
}
void fields(auto& field, Of<Pace> auto& pace) {
  field("every_ms", pace.every);
  field("gpus", pace.gpus);
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
