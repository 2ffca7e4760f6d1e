// The fields of what messages are made of; message_fields.hpp says how `field` is used. Private to it.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "rendezvous/protocol/messages.hpp"

namespace cxxrun::rendezvous {

// Arrays longer than this are not ours.
inline constexpr std::size_t kMaxItems = 65536;
// Longer waits than three years are not meant; the bound keeps sums with a time point from overflowing.
inline constexpr std::int64_t kMaxWaitMs = 100'000'000'000;
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
void fields(auto& field, Of<StepsAgo> auto& steps) {
  field("first_step_ms", steps.first);
  field("last_ms", steps.last);
  field("checkpoints_ms", steps.checkpoints);
}
void fields(auto& field, Of<Account> auto& account) {
  for (std::size_t i = 0; i < kSpentKinds; ++i) {
    field(name_of(static_cast<Spent>(i)), account.spent[i]);
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

}  // namespace cxxrun::rendezvous
